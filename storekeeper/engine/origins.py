"""Where the records behind a repartition come from: the records of source topics, by topic, partition and offset.

Records of a shuffle have it as a number, records of a repartition topic in a header. Few records are asked for it, the
ones that become dead letters first of all. So it stays where it is until one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from storekeeper.changelog.headers import SourceRanges
from storekeeper.engine.parcels import ShuffledRecords
from storekeeper.topology.record_order import by_upstream, origin_in
from storekeeper.topology.records import Moved, Place, RecordFields

UNKNOWN = -1
"""The number of no place: that of what no record is known to have made."""
_OFFSET_BITS = 44
_LAST_OFFSET = (1 << _OFFSET_BITS) - 1


class Origins:
    """The origins of the records that one task gets in one batch."""

    def __init__(self, source: SourceRanges) -> None:
        """`source` has all partitions that the batch may have read: they are numbered in its records."""
        self._partitions = sorted((topic, number) for topic, ranges in source.items() for number in ranges)
        self._numbers = {partition: number for number, partition in enumerate(self._partitions)}
        self._shuffled: list[ShuffledRecords] = []
        self._records: list[RecordFields] = []
        self._found: dict[Place, Place] | None = None

    def keep_shuffled(self, records: ShuffledRecords) -> None:
        """Records of shuffles that the task gets."""
        self._shuffled.append(records)

    def keep_records(self, records: Sequence[RecordFields]) -> None:
        """Records of repartition topics that the task gets, as they are there."""
        self._records += records

    def of(self, place: Place) -> Place:
        """Where a record comes from, by its place among the task's records; the same if no repartition is before it."""
        if self._found is None:
            self._found = dict(self._marked())
            for records in self._shuffled:
                self._found |= self._numbered(records)
        return self._found.get(place, place)

    def numbers(self, outputs: Sequence[Moved], *, of_one_partition: bool) -> list[int]:
        """The origins of outputs as parcels have them. `of_one_partition`: all come from records of the same partition,
        which no repartition is before.
        """
        if of_one_partition:
            offsets = np.array([output[6] for output in outputs], np.int64)
            *_, topic, partition, _ = outputs[0]
            base = self._numbers.get((topic, partition), UNKNOWN) << _OFFSET_BITS
            known = (base >= 0) & (offsets >= 0) & (offsets <= _LAST_OFFSET)
            found: list[int] = np.where(known, base | offsets, UNKNOWN).tolist()
            return found
        return [self._number(self.of(output[4:])) for output in outputs]

    def _number(self, place: Place) -> int:
        topic, partition, offset = place
        number = self._numbers.get((topic, partition))
        return UNKNOWN if number is None or not 0 <= offset <= _LAST_OFFSET else number << _OFFSET_BITS | offset

    def _marked(self) -> dict[Place, Place]:
        seen: list[tuple[Any, ...]] = [by_upstream(record)[:3] for record in self._records]
        return {place: origin_in(record) or record[:3] for place, record in zip(seen, self._records, strict=True)}

    def _numbered(self, records: ShuffledRecords) -> dict[Place, Place]:
        return {
            (records.topic, records.partition, offset): (
                *self._partitions[number >> _OFFSET_BITS],
                number & _LAST_OFFSET,
            )
            for offset, number in zip(records.offsets, records.origins, strict=True)
            if number != UNKNOWN
        }
