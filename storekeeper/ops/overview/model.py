"""The platform's state as data. `collect` fills it, and all views show it: status, Airflow's page, metrics.

Ages and durations are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from storekeeper.client.answers import NO_ANSWER_WITHIN
from storekeeper.client.readings import NodeLag
from storekeeper.engine.runtime.heartbeat import (
    LIVE_STATES,
    AppState,
    Heartbeat,
    behind,
    heartbeat_problem,
    is_silent,
    restoring,
)
from storekeeper.names import store_of
from storekeeper.ops.supervisor_rpc import ProcessInfo
from storekeeper.quality.resolution import Resolution
from storekeeper.quality.verdict import Verdict
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.check_verdict import CheckVerdict

RUNNING = "RUNNING"
"""The supervisor's word for a process that runs."""

FROZEN = "frozen: its process was stopped by a signal"


@dataclass(frozen=True, slots=True)
class Process:
    """A supervised process.

    Attributes:
        name: the supervisor's name for it.
        state: the supervisor's word for its state.
        healthy: whether it also does its work, as far as was checked; one that is not needed may be stopped.
        pid: None if it doesn't run.
        uptime_s: None if it doesn't run.
        address: where it answers; None if nowhere.
        detail: why it isn't healthy; empty if it is.
        needed: whether it should run.
        exits: how often it has ended by itself since the platform was started.
        last_exit: how it last ended by itself; empty if it never did.
        last_exit_age_ms: the time since that end; None if there is none.
    """

    name: str
    state: str
    healthy: bool
    pid: int | None
    uptime_s: int | None
    address: str | None
    detail: str
    needed: bool = True
    exits: int = 0
    last_exit: str = ""
    last_exit_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class App:
    """A stream app, according to its last heartbeat and its process.

    Attributes:
        name: its name. A generation that isn't live has the name of its process.
        at_ms: when it was looked at.
        beat: its last heartbeat, which may come from an earlier process; None if there is none.
        process: its process; None if no supervisor here has one.
        role: of its generation: `live`, `candidate` or `standby`; empty if the app has never changed, or unknown.
        change: how far a change of the app's generations is, in words; empty if none is under way, or unknown.
    """

    name: str
    at_ms: int
    beat: Heartbeat | None
    process: ProcessInfo | None = None
    role: str = ""
    change: str = ""

    @property
    def problem(self) -> str | None:
        """Why it is not healthy; None if it is."""
        if self.process is None:
            return "down" if self.beat is None else heartbeat_problem(self.beat, self.beat.pid, self.at_ms)
        if self.process.state != RUNNING:
            return self.process.state.lower()
        return heartbeat_problem(self.beat, self.process.pid, self.at_ms)

    @property
    def state(self) -> str:
        """Its heartbeat's state.

        `SILENT` if heartbeats should come and don't, the supervisor's state if its process doesn't run, `STARTING`
        before the first heartbeat of its process, `DOWN` without process and heartbeat.
        """
        beat, process = self.beat, self.process
        if process is not None and process.state != RUNNING and (beat is None or beat.state in LIVE_STATES):
            return process.state
        if beat is None:
            return "DOWN" if process is None else str(AppState.STARTING)
        if process is not None and process.state == RUNNING and beat.pid != process.pid:
            return str(AppState.STARTING)
        return "SILENT" if is_silent(beat, self.at_ms) else str(beat.state)

    @property
    def lag_records(self) -> int | None:
        """Offsets of its sources that it has still to read; None before they are known."""
        return None if self.beat is None else behind(self.beat)

    @property
    def restoring(self) -> str | None:
        """What its tasks restore now, in words; None unless it runs."""
        return restoring(self.beat) if self.beat is not None and self.state == AppState.RUNNING else None

    @property
    def rows_per_second(self) -> float:
        """The rate of the last seconds; 0 unless it runs."""
        return self.beat.input_rows_per_second if self.beat is not None and self.state == AppState.RUNNING else 0.0

    @property
    def up_ms(self) -> int | None:
        """The time since its start; None unless it runs."""
        if self.beat is None or self.state != AppState.RUNNING:
            return None
        return max(0, self.at_ms - self.beat.started_at_ms)

    @property
    def last_batch_age_ms(self) -> int | None:
        """The time since its last batch ended; None if none has since its start."""
        if self.beat is None or self.beat.last_batch_ms is None:
            return None
        return max(0, self.at_ms - self.beat.last_batch_ms)

    def as_json(self) -> dict[str, Any]:
        """The app as JSON's own types."""
        return {
            "app": self.name,
            "process": None if self.process is None else self.process.name,
            "state": self.state,
            "role": self.role,
            "change": self.change,
            "healthy": self.problem is None,
            "problem": self.problem,
            "behind": self.lag_records,
            "restoring": self.restoring,
            "rows_per_second": self.rows_per_second,
            "last_batch_age_ms": self.last_batch_age_ms,
            "up_ms": self.up_ms,
            "heartbeat": None if self.beat is None else asdict(self.beat),
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest snapshot of a store: when it was committed, and its rows; None if its manifest can't be read."""

    at_ms: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Store:
    """A store as the nodes that answer hold it.

    Attributes:
        store: its name.
        kind: its kind.
        topic: the changelog that serves it.
        partitions: how many the nodes hold.
        replicas: the expected number, or the number found if that is higher.
        serving: replicas that answer queries.
        all_known: whether every node that was asked has said what it holds.
        lag_records: of the replica that is furthest behind; None if unknown.
        snapshot_age_ms: of the newest snapshot; None without one.
        snapshot_rows: rows of that snapshot, exactly; None if its manifest can't be read.
    """

    store: str
    kind: str
    topic: str
    partitions: int
    replicas: int
    serving: int
    all_known: bool
    lag_records: int | None
    snapshot_age_ms: int | None
    snapshot_rows: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A query node. `node` is `?` if its name is unknown. `state` is `answers`, `hangs` if the request timed out, or
    `does not answer`; then `replicas` is None and `error` says why.
    """

    node: str
    address: str
    replicas: int | None
    serving: int
    state: str
    error: str | None


@dataclass(frozen=True, slots=True)
class LastVerdict:
    """The quality gate's last decision on a table's new rows, and what somebody decided on the batch since."""

    verdict: Verdict
    resolution: Resolution | None = None

    @property
    def outcome(self) -> str:
        """`published`, `quarantined`, `released` or `discarded`."""
        return str(self.verdict.status if self.resolution is None else self.resolution.action)

    @property
    def is_open(self) -> bool:
        """Whether the batch is quarantined and nobody has decided on it."""
        return not self.verdict.passed and self.resolution is None

    def as_json(self, at_ms: int) -> dict[str, Any]:
        """The verdict as JSON's own types; its age is that at `at_ms`."""
        return {
            "table": self.verdict.table,
            "outcome": self.outcome,
            "open": self.is_open,
            "rows": self.verdict.rows,
            "age_ms": max(0, at_ms - self.verdict.decided_at_ms),
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """The platform at one moment. What was not asked for, or can't be read, is empty.

    Attributes:
        at_ms: that moment.
        processes: in the order of starting; none while no supervisor runs here.
        apps: those of its processes, and those that have left heartbeats.
        stores: what the nodes hold.
        nodes: the query nodes.
        snapshots: the newest one of each store.
        verdicts: the last one on each table.
        checks: the last verdict of each check of each store.
        topologies: the apps that are topologies.
        unreachable: why no node could be asked; None if one answered or none was asked.
    """

    at_ms: int
    processes: Sequence[Process] = ()
    apps: Sequence[App] = ()
    stores: Sequence[Store] = ()
    nodes: Sequence[Node] = ()
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    verdicts: Sequence[LastVerdict] = ()
    checks: Sequence[CheckVerdict] = ()
    topologies: Collection[str] = ()
    unreachable: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether there are processes and all are healthy."""
        return bool(self.processes) and all(process.healthy for process in self.processes)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON's own types."""
        return {
            "at_ms": self.at_ms,
            "processes": [asdict(process) for process in self.processes],
            "apps": [app.as_json() for app in self.apps],
            "stores": [asdict(store) for store in self.stores],
            "nodes": [asdict(node) for node in self.nodes],
            "verdicts": [verdict.as_json(self.at_ms) for verdict in self.verdicts],
            "unreachable": self.unreachable,
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """The expected placement of replicas. `names` are by address. `standbys` are beside the active replica;
    `standbys_of` has other numbers for some stores.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    standbys: int = 0
    standbys_of: Mapping[str, int] = field(default_factory=dict)

    def copies(self, store: str, kind: str, nodes: int) -> int:
        """How many of the nodes should hold each partition of a store."""
        return nodes if kind == ServedKind.GLOBAL else min(nodes, 1 + self.standbys_of.get(store, self.standbys))


def stores_of(
    listed: Iterable[Mapping[str, Any]],
    lags: Sequence[NodeLag],
    *,
    snapshots: Mapping[str, Snapshot],
    placement: Placement,
    now_ms: int,
) -> list[Store]:
    """The listed stores, sorted by name, with all nodes' replicas of the changelog that serves each store. `listed` is
    what `/state/stores` lists, `lags` are the nodes' replicas, `placement` says where replicas should be.
    """
    replicas = [replica for lag in lags for replica in lag.replicas]
    stores = []
    for row in sorted(listed, key=lambda row: str(row["store"])):
        name, topic, kind = str(row["store"]), str(row.get("topic", "")), str(row.get("kind", ""))
        held = [one for one in replicas if store_of(one["store"]) == name and one["topic"] == topic]
        lagging = [int(one["offset_lag"]) for one in held if one.get("offset_lag") is not None]
        partitions = len({one["partition"] for one in held})
        snapshot = snapshots.get(name)
        stores.append(
            Store(
                store=name,
                kind=kind,
                topic=topic,
                partitions=partitions,
                replicas=max(len(held), partitions * placement.copies(name, kind, len(lags))),
                serving=sum(1 for one in held if one["serving"]),
                all_known=all(lag.error is None for lag in lags),
                lag_records=max(lagging, default=None),
                snapshot_age_ms=None if snapshot is None else max(0, now_ms - snapshot.at_ms),
                snapshot_rows=None if snapshot is None else snapshot.rows,
            )
        )
    return stores


def nodes_of(lags: Iterable[NodeLag], names: Mapping[str, str]) -> list[Node]:
    """The nodes in the order in which they were asked. `names` are those that are known, by address."""
    return [
        Node(
            node=lag.node or names.get(lag.address, "?"),
            address=lag.address,
            replicas=None if lag.error else len(lag.replicas),
            serving=sum(1 for replica in lag.replicas if replica["serving"]),
            state=_node_state(lag.error),
            error=lag.error,
        )
        for lag in lags
    ]


def _node_state(error: str | None) -> str:
    if error is None:
        return "answers"
    return "hangs" if NO_ANSWER_WITHIN in error else "does not answer"
