"""Rows between the stages of a batch: records for tasks.

| column         | of a record                                  |
|----------------|----------------------------------------------|
| `task`         | its task's place in the stage that it goes to |
| `topic`        | the topic that the shuffle stands for        |
| `partition`    | that of the task before it                   |
| `offset`       | its index in that task's output              |
| `timestamp_ms` | its timestamp                                |
| `key`, `value` | its key and value                            |
| `headers`      | its headers as JSON; null for none           |
| `origin`       | where it comes from: see `engine.origins`    |
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import xxhash

from storekeeper.engine.markers import Passed
from storekeeper.stores.record_context import Header
from storekeeper.topology.records import Moved, RecordFields

SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
        ("origin", pa.int64()),
    ]
)
_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
"""The columns of a record, in the order of `Record`'s fields."""
MOST_BYTES = 4 << 20
"""Both sides hold a parcel in memory as a whole."""


def records_of(batch: pa.RecordBatch) -> Iterator[RecordFields]:
    """The records in rows between stages."""
    columns = [cells(batch.column(name)) for name in _COLUMNS[:-1]]
    column = batch.column("headers")
    if column.null_count == len(column):
        headers: Iterable[Any] = [()] * len(column)
    else:
        headers = [() if text is None else decoded_headers(text) for text in column.to_pylist()]
    return zip(*columns, headers, strict=True)


def encoded_headers(headers: Sequence[Header]) -> str | None:
    """Headers as JSON; None if there are none."""
    if not headers:
        return None
    return orjson.dumps([{"key": name, "value": b64encode(value).decode()} for name, value in headers]).decode()


def decoded_headers(text: str) -> list[Header]:
    """The headers in such a text."""
    return [(header["key"], b64decode(header["value"])) for header in orjson.loads(text)]


def forwarded_rows(
    tasks: Sequence[int] | npt.NDArray[np.int32],
    partition: int,
    topic: str,
    outputs: Sequence[Moved],
    *,
    origins: npt.NDArray[np.int64],
    most_bytes: int = MOST_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Rows of records that go to a shuffle, in batches of bounded size.

    Args:
        tasks: for each record, its task's place in that stage.
        partition: of the task that they come from.
        topic: the topic that the shuffle stands for.
        outputs: the records.
        origins: for each record, the number of its origin.
        most_bytes: the most bytes of keys and values in a batch of several records.
    """
    waiting = [(0, len(outputs))]
    while waiting:
        begin, end = waiting.pop()
        part = outputs[begin:end]
        # Column by column: `zip` of all records takes twice as long.
        data = [pa.array([output[place] for output in part], pa.binary()) for place in (0, 1)]
        middle = (begin + end) // 2
        if middle > begin and sum(column.nbytes for column in data) > most_bytes:
            waiting += [(middle, end), (begin, middle)]
            continue
        count = end - begin
        columns = [
            pa.array(tasks[begin:end], pa.int32()),
            pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [topic]).cast(pa.string()),
            pa.array(np.full(count, partition, np.int32)),
            pa.array(np.arange(begin, end)),
            pa.array([output[2] for output in part], pa.int64()),
            *data,
            pa.array([(output[3] and encoded_headers(output[3])) or None for output in part], pa.string()),
            pa.array(origins[begin:end]),
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


def passed(rows: Sequence[pa.RecordBatch]) -> Passed:
    """What a marker says of the rows that go to one shuffle."""
    digest = xxhash.xxh3_64()
    for batch in rows:
        for name in ("task", "timestamp_ms", "key", "value"):
            for buffer in batch.column(name).buffers():
                digest.update(b"" if buffer is None else buffer)
    return sum(batch.num_rows for batch in rows), digest.hexdigest()


def cells(column: pa.Array) -> list[Any]:
    """A column's values as Python objects, None for null. Four times as fast as `to_pylist` for texts and bytes."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type) or not column.null_count:
        listed: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return listed
    return column.to_pylist()
