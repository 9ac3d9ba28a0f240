"""What there is to see, as data: pure functions of heartbeats, replicas, snapshots and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deploy.app_health import HEARTBEAT_STALE_MS
from deploy.run_reader import unread
from quality.verdict import Verdict
from spark_apps.heartbeat import AppState, Heartbeat
from state.client import NodeLag

_SILENT = "SILENT"


@dataclass(frozen=True, slots=True)
class AppGlance:
    """A stream app. Ages and durations in milliseconds, None where it hasn't told.

    Attributes:
        state: what it says of itself; `SILENT` if it should run and has said nothing for half a minute.
        lag_records: offsets of its sources that it has still to read.
        error: why it failed.
    """

    app: str
    state: str
    healthy: bool
    generation: int
    batch_id: int | None
    input_rows_per_second: float | None
    batch_duration_ms: int | None
    lag_records: int
    idle_ms: int | None
    dead_letters: int
    state_rows: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class StoreGlance:
    """A store as the nodes that answer hold it.

    Attributes:
        entries: about so many, expired ones included; None if no node lists the store.
        serving: replicas that answer questions, of `replicas`.
        lag_records: of the replica that is furthest behind; None if unknown.
        snapshot_age_ms: of the newest snapshot; None without one.
    """

    store: str
    kind: str
    topic: str
    entries: int | None
    partitions: int
    replicas: int
    serving: int
    lag_records: int | None
    snapshot_age_ms: int | None


@dataclass(frozen=True, slots=True)
class NodeGlance:
    """A query node: `error` says why it doesn't answer, None if it does."""

    node: str
    address: str
    replicas: int
    serving: int
    error: str | None


@dataclass(frozen=True, slots=True)
class VerdictGlance:
    """The last decision on a table's new rows."""

    table: str
    passed: bool
    rows: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Glance:
    """All of it, at `at_ms`. `unreachable` says why no node could be asked, None if one answered."""

    at_ms: int
    apps: Sequence[AppGlance] = ()
    stores: Sequence[StoreGlance] = ()
    nodes: Sequence[NodeGlance] = ()
    verdicts: Sequence[VerdictGlance] = ()
    unreachable: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same as plain dicts and lists."""
        return asdict(self)


def app_glance(beat: Heartbeat, now_ms: int) -> AppGlance:
    """An app by its last heartbeat."""
    silent = beat.state is not AppState.STOPPED and beat.age_ms(now_ms) > HEARTBEAT_STALE_MS
    return AppGlance(
        app=beat.app,
        state=_SILENT if silent else str(beat.state),
        healthy=not silent and beat.state is not AppState.FAILED,
        generation=beat.generation,
        batch_id=beat.batch_id,
        input_rows_per_second=beat.input_rows_per_second,
        batch_duration_ms=beat.batch_duration_ms,
        lag_records=sum(left for *_, left in unread(beat)),
        idle_ms=None if beat.last_progress_ms is None else max(0, now_ms - beat.last_progress_ms),
        dead_letters=beat.dead_letters_total or 0,
        state_rows=beat.state_rows,
        error=beat.error,
    )


def store_glances(
    listed: Iterable[Mapping[str, Any]],
    lags: Iterable[NodeLag],
    snapshots_at_ms: Mapping[str, int],
    now_ms: int,
) -> list[StoreGlance]:
    """The stores by name: those that a node lists, with what all nodes hold of them."""
    held: dict[str, list[Mapping[str, Any]]] = {}
    for lag in lags:
        for replica in lag.replicas:
            held.setdefault(str(replica["store"]), []).append(replica)
    found = []
    for row in sorted(listed, key=lambda row: str(row["store"])):
        name = str(row["store"])
        replicas = held.get(name, [])
        behind = [int(replica["offset_lag"]) for replica in replicas if replica.get("offset_lag") is not None]
        found.append(
            StoreGlance(
                store=name,
                kind=str(row.get("kind", "")),
                topic=str(row.get("topic", "")),
                entries=row.get("approximate_num_entries"),
                partitions=len({replica["partition"] for replica in replicas}),
                replicas=len(replicas),
                serving=sum(1 for replica in replicas if replica["serving"]),
                lag_records=max(behind, default=None),
                snapshot_age_ms=max(0, now_ms - snapshots_at_ms[name]) if name in snapshots_at_ms else None,
            )
        )
    return found


def node_glances(lags: Iterable[NodeLag]) -> list[NodeGlance]:
    """The nodes in the order in which they were asked."""
    return [
        NodeGlance(
            node=lag.node or "?",
            address=lag.address,
            replicas=len(lag.replicas),
            serving=sum(1 for replica in lag.replicas if replica["serving"]),
            error=lag.error,
        )
        for lag in lags
    ]


def verdict_glance(table: str, verdict: Verdict, now_ms: int) -> VerdictGlance:
    """The last verdict on a table."""
    return VerdictGlance(table, verdict.passed, verdict.rows, max(0, now_ms - verdict.decided_at_ms))
