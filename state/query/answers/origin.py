"""The origin of one partition's rows in an answer, and the headers that summarise many origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from state.changelog.position import Position
from state.protocol.position_token import MAX_TOKEN_PARTITIONS, PositionToken
from state.query.answers.answer import COMPLETE, OFFSET_LAG, SERVED_BY
from state.replicas.freshness import ReplicaFreshness
from state.replicas.replica import Replica

STALENESS = b"storekeeper-staleness-ms"
POSITION = b"storekeeper-position"


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
    """

    node: str
    topic: str
    partition: int
    role: str
    shown: int
    offset_lag: int | None
    staleness_ms: int | None

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
        )

    def as_json(self) -> list[Any]:
        """As `of_json` reads it."""
        return [self.node, self.topic, self.partition, self.role, self.shown, self.offset_lag, self.staleness_ms]

    @classmethod
    def of_json(cls, fields: list[Any]) -> Self:
        """Reads what `as_json` wrote. Raises TypeError if it didn't."""
        return cls(*fields)


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
