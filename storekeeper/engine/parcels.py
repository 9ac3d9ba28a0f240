"""What the tasks of a batch pass on, as bytes: parcels of records for one task of a later stage, or of an outcome.

| bytes | of records                            | of an outcome |
|-------|---------------------------------------|---------------|
| 4     | the stage that they go to             | 0             |
| 4     | their task's place in that stage      | 0             |
| 4     | how many they are                     | 0             |
| rest  | `ShuffledRecords`, packed by msgpack  | it, packed    |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from storekeeper.engine.markers import Passed
from storekeeper.stores.record_context import Header
from storekeeper.topology.records import Moved, RecordFields

MOST_BYTES = 4 << 20
"""Of keys, values and headers in a parcel of several records: all sides hold a parcel in memory as a whole."""
_HEAD = struct.Struct("!iii")
_OUTCOME = 0
"""The stage of an outcome: records go to none that is before the second."""


class ShuffledRecords(msgspec.Struct, frozen=True, array_like=True):
    """Records that one task passes on to another, by column.

    Attributes:
        topic: the topic that the shuffle stands for.
        partition: that of the task that passes them on.
        offsets: of each record, its index in that task's output.
        timestamps_ms: of each record.
        keys: of each record.
        values: of each record.
        headers: of each record; empty if none has any.
        origins: of each record, where it comes from: see `engine.origins`.
    """

    topic: str
    partition: int
    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    origins: list[int]

    def records(self) -> Iterator[RecordFields]:
        """The records."""
        count = len(self.offsets)
        topics, partitions = [self.topic] * count, [self.partition] * count
        headers: Sequence[Sequence[Header]] = self.headers or [()] * count
        return zip(
            *(topics, partitions, self.offsets, self.timestamps_ms, self.keys, self.values), headers, strict=True
        )


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ShuffledRecords)


def parcels_of(
    stage: int,
    tasks: npt.NDArray[np.int32],
    partition: int,
    topic: str,
    outputs: Sequence[Moved],
    *,
    origins: Sequence[int],
    most_bytes: int = MOST_BYTES,
) -> Iterator[bytes]:
    """Parcels of records that go to a shuffle: those of each task, in their order.

    Args:
        stage: the stage that they go to.
        tasks: for each record, its task's place in that stage.
        partition: of the task that they come from.
        topic: the topic that the shuffle stands for.
        outputs: the records.
        origins: for each record, the number of its origin.
        most_bytes: the most bytes of keys, values and headers in a parcel of several records.
    """
    sizes = np.fromiter(map(_size, outputs), np.int64, len(outputs))
    for task in np.unique(tasks).tolist():
        places = np.flatnonzero(tasks == task)
        for own in _bounded(places, sizes[places], most_bytes):
            rows = [outputs[place] for place in own]
            packed = ShuffledRecords(
                topic=topic,
                partition=partition,
                offsets=own,
                timestamps_ms=[row[2] for row in rows],
                keys=[row[0] for row in rows],
                values=[row[1] for row in rows],
                headers=[list(row[3]) for row in rows] if any(row[3] for row in rows) else [],
                origins=[origins[place] for place in own],
            )
            yield _HEAD.pack(stage, task, len(own)) + _ENCODER.encode(packed)


def _size(output: Moved) -> int:
    key, value, _, headers, *_ = output
    size = len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(header or b"") for name, header in headers) if headers else size


def _bounded(places: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], most_bytes: int) -> Iterator[list[int]]:
    first, ends = 0, np.cumsum(sizes)
    while first < len(places):
        before = ends[first] - sizes[first]
        end = max(first + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        yield places[first:end].tolist()
        first = end


def passed(parcels: Sequence[bytes]) -> Passed:
    """What a marker says of the parcels that go to one shuffle."""
    digest = xxhash.xxh3_64()
    for parcel in parcels:
        digest.update(parcel)
    return sum(_HEAD.unpack_from(parcel)[2] for parcel in parcels), digest.hexdigest()


def outcome_parcel(outcome: bytes) -> bytes:
    """The parcel of an outcome."""
    return _HEAD.pack(_OUTCOME, 0, 0) + outcome


def stage_of(parcel: bytes) -> int:
    """The stage that a parcel goes to."""
    return int(_HEAD.unpack_from(parcel)[0])


def place_of(parcel: bytes) -> int:
    """The place of its task in that stage."""
    return int(_HEAD.unpack_from(parcel)[1])


def records_in(parcel: bytes) -> ShuffledRecords:
    """The records of a parcel of records."""
    return _DECODER.decode(memoryview(parcel)[_HEAD.size :])


def outcome_in(parcel: bytes) -> bytes:
    """The outcome in its parcel."""
    return parcel[_HEAD.size :]
