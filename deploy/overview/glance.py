"""The overview as data: pure functions of heartbeats, replicas, snapshots and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deploy.app_health import HEARTBEAT_STALE_MS, restoring
from deploy.exits import Exits
from deploy.run_reader import LastVerdict, Snapshot, behind
from spark_apps.runtime.heartbeat import AppState, Heartbeat
from state.client import NodeLag
from state.client.answers import NO_ANSWER_WITHIN
from state.names import store_of
from state.query.definitions import StoreKind

_SILENT = "SILENT"


@dataclass(frozen=True, slots=True)
class AppGlance:
    """A stream app. Ages and durations in milliseconds, None where unknown.

    Attributes:
        state: its heartbeat's; `SILENT` if it should run and its heartbeat is older than half a minute.
        input_rows_per_second: the rate of the last seconds; 0 unless it runs.
        lag_records: offsets of its sources that it has still to read; None before they are known.
        last_batch_age_ms: since its last batch ended; None if none has since its start.
        up_ms: since its start; None unless it runs.
        dropped: records that came too late or had no key.
        restoring: what its tasks restore now, in words; None unless it runs.
        error: why it failed.
    """

    app: str
    state: str
    healthy: bool
    generation: int
    batch_id: int | None
    input_rows_per_second: float
    batch_duration_ms: int | None
    lag_records: int | None
    last_batch_age_ms: int | None
    up_ms: int | None
    dead_letters: int
    dropped: int
    state_rows: int | None
    restoring: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StoreGlance:
    """A store as the nodes that answer hold it.

    Attributes:
        estimated_entries: RocksDB's estimate, which may be far off after updates; None if no node reports it.
        replicas: the expected number, or the number found if that is higher.
        serving: replicas that answer queries.
        lag_records: of the replica that is furthest behind; None if unknown.
        snapshot_age_ms: of the newest snapshot; None without one.
        snapshot_rows: rows of that snapshot, exactly; None if its manifest can't be read.
    """

    store: str
    kind: str
    topic: str
    estimated_entries: int | None
    partitions: int
    replicas: int
    serving: int
    lag_records: int | None
    snapshot_age_ms: int | None
    snapshot_rows: int | None


@dataclass(frozen=True, slots=True)
class NodeGlance:
    """A query node.

    Attributes:
        replicas: that it holds; None if it doesn't answer.
        state: `answers`, `hangs` if the request timed out, or `does not answer`.
        error: why it doesn't answer, None if it does.
    """

    node: str
    address: str
    replicas: int | None
    serving: int
    state: str
    error: str | None


@dataclass(frozen=True, slots=True)
class VerdictGlance:
    """The last decision on a table's new rows.

    Attributes:
        outcome: `published`, `quarantined`, or what was decided on a quarantined batch: `released`, `discarded`.
        open: whether the batch is quarantined and nobody has decided on it.
    """

    table: str
    outcome: str
    open: bool
    rows: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class ExitGlance:
    """A process that has ended by itself since the platform was started: how often, and how and when it last did."""

    process: str
    count: int
    last: str
    age_ms: int


@dataclass(frozen=True, slots=True)
class Glance:
    """The whole overview, at `at_ms`. `unreachable` is why no node could be asked, None if one answered."""

    at_ms: int
    apps: Sequence[AppGlance] = ()
    stores: Sequence[StoreGlance] = ()
    nodes: Sequence[NodeGlance] = ()
    verdicts: Sequence[VerdictGlance] = ()
    exits: Sequence[ExitGlance] = ()
    unreachable: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same as plain dicts and lists."""
        return asdict(self)


def app_glance(beat: Heartbeat, now_ms: int) -> AppGlance:
    """An app by its last heartbeat."""
    silent = beat.state is not AppState.STOPPED and beat.age_ms(now_ms) > HEARTBEAT_STALE_MS
    runs = beat.state is AppState.RUNNING and not silent
    return AppGlance(
        app=beat.app,
        state=_SILENT if silent else str(beat.state),
        healthy=not silent and beat.state is not AppState.FAILED,
        generation=beat.generation,
        batch_id=beat.batch_id,
        input_rows_per_second=beat.input_rows_per_second if runs else 0.0,
        batch_duration_ms=beat.batch_duration_ms,
        lag_records=behind(beat),
        last_batch_age_ms=None if beat.last_batch_ms is None else max(0, now_ms - beat.last_batch_ms),
        up_ms=max(0, now_ms - beat.started_at_ms) if runs else None,
        dead_letters=beat.dead_letters_total or 0,
        dropped=beat.dropped_total,
        state_rows=beat.state_rows,
        restoring=restoring(beat) if runs else None,
        error=beat.error,
    )


@dataclass(frozen=True, slots=True)
class Holders:
    """The expected placement: the nodes' names by address, and the number of copies of each partition.

    Attributes:
        names: of the nodes that are known, by address.
        standbys: of each partition, beside the active replica.
        standbys_of: the same for some stores, by name.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    standbys: int = 0
    standbys_of: Mapping[str, int] = field(default_factory=dict)

    def copies(self, store: str, kind: str, nodes: int) -> int:
        """How many of the nodes should hold each partition of a store."""
        return nodes if kind == StoreKind.GLOBAL else min(nodes, 1 + self.standbys_of.get(store, self.standbys))


def store_glances(
    listed: Iterable[Mapping[str, Any]],
    lags: Sequence[NodeLag],
    *,
    estimates: Mapping[str, int],
    snapshots: Mapping[str, Snapshot],
    holders: Holders,
    now_ms: int,
) -> list[StoreGlance]:
    """The listed stores, sorted by name, with all nodes' replicas of the changelog that serves each store."""
    replicas = [replica for lag in lags for replica in lag.replicas]
    found = []
    for row in sorted(listed, key=lambda row: str(row["store"])):
        name, topic, kind = str(row["store"]), str(row.get("topic", "")), str(row.get("kind", ""))
        held = [one for one in replicas if store_of(one["store"]) == name and one["topic"] == topic]
        lagging = [int(one["offset_lag"]) for one in held if one.get("offset_lag") is not None]
        partitions = len({one["partition"] for one in held})
        snapshot = snapshots.get(name)
        found.append(
            StoreGlance(
                store=name,
                kind=kind,
                topic=topic,
                estimated_entries=estimates.get(name),
                partitions=partitions,
                replicas=max(len(held), partitions * holders.copies(name, kind, len(lags))),
                serving=sum(1 for one in held if one["serving"]),
                lag_records=max(lagging, default=None),
                snapshot_age_ms=None if snapshot is None else max(0, now_ms - snapshot.at_ms),
                snapshot_rows=None if snapshot is None else snapshot.rows,
            )
        )
    return found


def node_glances(lags: Iterable[NodeLag], names: Mapping[str, str]) -> list[NodeGlance]:
    """The nodes in the order in which they were asked. `names` are those that are known, by address."""
    return [
        NodeGlance(
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


def verdict_glance(last: LastVerdict, now_ms: int) -> VerdictGlance:
    """The last verdict on a table, with any later decision on the batch."""
    verdict = last.verdict
    return VerdictGlance(
        verdict.table, last.outcome, last.is_open, verdict.rows, max(0, now_ms - verdict.decided_at_ms)
    )


def exit_glance(ended: Exits, now_ms: int) -> ExitGlance:
    """A process that has ended by itself."""
    return ExitGlance(ended.process, ended.count, ended.last, max(0, now_ms - ended.last_at_ms))
