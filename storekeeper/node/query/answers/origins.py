"""Where rows come from and how fresh they are: of one partition, of many, and of this node's own replicas.

The headers of a replica are kept ready. Between two batches of a partition only the staleness changes, so the rest is
written once a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from storekeeper.changelog.position import Position
from storekeeper.node.query.answers.answer import (
    COMPLETE,
    EPOCH,
    OFFSET,
    OFFSET_LAG,
    PARTITION,
    POSITION,
    ROLE,
    SERVED_BY,
    STALENESS,
)
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.position_token import MAX_TOKEN_PARTITIONS, PositionToken
from storekeeper.protocol.replica_freshness import ReplicaFreshness
from storekeeper.protocol.replica_states import ReplicaId

HeaderList = list[tuple[bytes, bytes]]

_SAFE = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
"""The headers of every answer."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one partition's rows.

    Attributes:
        node: the node that read them.
        topic, partition: the changelog partition.
        role: `active` or `standby`.
        shown: the rows contain no changelog record at this offset or later.
        offset_lag: how many records are missing at most, None if unknown.
        staleness_ms: all that was in the log this long before the request is in the rows, None if unknown.
        lost: why rows may be missing, as `Replica.lost` has it; None if none are.
    """

    node: str
    topic: str
    partition: int
    role: str
    shown: int
    offset_lag: int | None
    staleness_ms: int | None
    lost: str | None = None

    @classmethod
    def of(cls, node: str, replica: Replica, freshness: ReplicaFreshness) -> Self:
        """The origin of rows that were just read; `freshness` was read before them."""
        return cls(
            node,
            replica.topic,
            replica.replica_id.partition,
            replica.role.value,
            replica.shown_offset,
            freshness.offset_lag,
            freshness.staleness_ms,
            replica.lost,
        )


def origin_headers(node: str, origins: Sequence[Origin], missing: Sequence[int]) -> dict[str, str]:
    """The origin headers of an answer from many partitions: the worst of its parts, and whether any is missing."""
    headers = {SERVED_BY.decode(): node, COMPLETE.decode(): "false" if missing else "true"}
    if missing:
        headers["storekeeper-missing-partitions"] = ",".join(map(str, sorted(missing)))
    for name, values in (
        (OFFSET_LAG, [origin.offset_lag for origin in origins]),
        (STALENESS, [origin.staleness_ms for origin in origins]),
    ):
        known = [value for value in values if value is not None]
        if values and len(known) == len(values):
            headers[name.decode()] = str(max(known))
    if origins and len(origins) <= MAX_TOKEN_PARTITIONS:
        headers[POSITION.decode()] = position_of(origins).encode()
    return headers


def position_of(origins: Sequence[Origin]) -> PositionToken:
    """The position that an answer shows."""
    offsets: dict[str, dict[int, int]] = {}
    for origin in origins:
        partitions = offsets.setdefault(origin.topic, {})
        partitions[origin.partition] = max(origin.shown, partitions.get(origin.partition, 0))
    return PositionToken(changelog=Position(offsets))


@dataclass(frozen=True, slots=True)
class ObservedFreshness:
    """A replica's freshness just before a row is read from it: the row is at least as fresh."""

    offset: int
    offset_lag: int | None
    staleness_ms: int | None


@dataclass(slots=True)
class _Ready:
    """The headers of one state of a replica, and the same as text."""

    replica: Replica
    state: tuple[str, int, int, int | None, str]
    headers: HeaderList
    block: bytes


class LocalOrigin:
    """Writes the headers of a node's own answers; `epoch` returns the assignment's epoch. Belongs to one event loop."""

    def __init__(self, node: str, epoch: Callable[[], str] = lambda: "") -> None:
        self._node = node.encode()
        self._epoch = epoch
        self._ready: dict[ReplicaId, _Ready] = {}

    def observe(self, replica: Replica, at_s: float) -> ObservedFreshness:
        """To be called before the row is read; `at_s` is when the request arrived."""
        fresh_at_s = replica.tracker.fresh_at_s
        staleness_ms = None if fresh_at_s is None else max(0, math.ceil((at_s - fresh_at_s) * 1000))
        return ObservedFreshness(replica.offset or 0, replica.offset_lag, staleness_ms)

    def headers(self, replica: Replica, observed: ObservedFreshness) -> HeaderList:
        """To be called after the row was read, so that the position covers everything that the row may contain."""
        ready = self._of(replica, observed)
        return (
            ready.headers
            if observed.staleness_ms is None
            else [*ready.headers, (STALENESS, b"%d" % observed.staleness_ms)]
        )

    def block(self, replica: Replica, observed: ObservedFreshness) -> bytes:
        """The same as lines of an HTTP response, with the headers of every answer."""
        block = self._of(replica, observed).block
        return (
            block
            if observed.staleness_ms is None
            else b"%bstorekeeper-staleness-ms: %d\r\n" % (block, observed.staleness_ms)
        )

    def _of(self, replica: Replica, observed: ObservedFreshness) -> _Ready:
        shown = max(replica.shown_offset, observed.offset)
        state = (replica.role.value, observed.offset, shown, observed.offset_lag, self._epoch())
        ready = self._ready.get(replica.replica_id)
        if ready is None or ready.state != state or ready.replica is not replica:
            headers = self._written(replica, observed, shown)
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            ready = self._ready[replica.replica_id] = _Ready(replica, state, headers, _SAFE + lines)
        return ready

    def _written(self, replica: Replica, observed: ObservedFreshness, shown: int) -> HeaderList:
        partition = replica.replica_id.partition
        headers = [
            (SERVED_BY, self._node),
            (ROLE, replica.role.value.encode()),
            (PARTITION, b"%d" % partition),
            (OFFSET, b"%d" % observed.offset),
            (POSITION, PositionToken.of_changelog(replica.topic, partition, shown).encode().encode()),
            (COMPLETE, b"true"),
        ]
        if epoch := self._epoch():
            headers.append((EPOCH, epoch.encode()))
        if observed.offset_lag is not None:
            headers.append((OFFSET_LAG, b"%d" % observed.offset_lag))
        return headers

    def block_of_many(self, all_observed: Sequence[tuple[Replica, ObservedFreshness]]) -> bytes:
        """The lines of an answer from several replicas: the worst lag, and the position of them all."""
        position = PositionToken()
        for replica, observed in all_observed:
            shown = max(replica.shown_offset, observed.offset)
            position = position.merged(PositionToken.of_changelog(replica.topic, replica.replica_id.partition, shown))
        headers = [(SERVED_BY, self._node), (POSITION, position.encode().encode()), (COMPLETE, b"true")]
        if epoch := self._epoch():
            headers.append((EPOCH, epoch.encode()))
        lags = [observed.offset_lag for _, observed in all_observed]
        if None not in lags:
            headers.append((OFFSET_LAG, b"%d" % max(lag for lag in lags if lag is not None)))
        return _SAFE + b"".join(b"%b: %b\r\n" % header for header in headers)
