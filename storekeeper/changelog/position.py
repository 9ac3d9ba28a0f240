"""A position: for topics and their partitions the next offset to read, so offsets below it are included.

As JSON: `{"pos-rewards-changelog": {"0": 1200, "1": 1187}}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import orjson

from storekeeper.errors import InvalidArgumentError, SerializationError

UNKNOWN_OFFSET = -4
"""Kafka Streams' sentinel: the partition is held, but how far it has been read is not known."""


@dataclass(frozen=True, slots=True)
class Position:
    """Next offsets by topic and partition. Immutable; a partition that is not in it has not been read at all."""

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for topic, partition, offset in self:
            if not _possible(offset):
                raise InvalidArgumentError(f"{topic}-{partition} can't be at offset {offset}: offsets begin at 0")

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, next offset), sorted."""
        for topic, partitions in sorted(self.offsets.items()):
            for partition, offset in sorted(partitions.items()):
                yield topic, partition, offset

    def offset(self, topic: str, partition: int) -> int | None:
        """The next offset of a partition, or None if it is not part of this position."""
        return self.offsets.get(topic, {}).get(partition)

    def at(self, topic: str, partition: int, offset: int) -> Position:
        """This position with one partition moved to `offset`, unless that would move it back."""
        return self.merged(Position({topic: {partition: offset}}))

    def merged(self, other: Position) -> Position:
        """The later offset of each partition that either position has."""
        result = {topic: dict(partitions) for topic, partitions in self.offsets.items()}
        for topic, partition, offset in other:
            mine = result.setdefault(topic, {})
            mine[partition] = max(mine.get(partition, offset), offset)
        return Position(result)

    def reaches(self, other: Position) -> bool:
        """Whether every partition of `other` is here at the same offset or a later one."""
        return all(_reached(self.offset(topic, partition), offset) for topic, partition, offset in other)

    def to_json(self) -> bytes:
        """The JSON form, with sorted keys."""
        return orjson.dumps(
            {
                topic: {str(partition): offset for partition, offset in sorted(self.offsets[topic].items())}
                for topic in self.offsets
            },
            option=orjson.OPT_SORT_KEYS,
        )

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Reads the JSON form. Impossible offsets are left out: their partitions count as not read.

        Raises:
            SerializationError: if it isn't JSON of this shape.
        """
        try:
            topics = orjson.loads(data)
            return cls(
                {
                    str(topic): {
                        int(partition): offset for partition, offset in partitions.items() if _possible(offset)
                    }
                    for topic, partitions in topics.items()
                }
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise SerializationError(f"not a position as JSON: {data[:80]!r}") from error


def _possible(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and (offset >= 0 or offset == UNKNOWN_OFFSET)


def _reached(mine: int | None, wanted: int) -> bool:
    return mine is not None and mine >= wanted
