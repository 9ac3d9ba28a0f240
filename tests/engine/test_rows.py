"""Records keep what they are, on their way between stages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from storekeeper.engine.rows import encoded_headers, forwarded_rows, passed_rows, records_of
from storekeeper.topology.records import Moved, Record

SOURCE = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
    ]
)


def source_batch(*records: Record) -> pa.RecordBatch:
    rows = [{**record._asdict(), "headers": encoded_headers(record.headers)} for record in records]
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE)


def test_records_come_out_of_sparks_rows() -> None:
    records = [Record("t", 1, 7, 5, b"k", b"v", [("h", b"1")]), Record("t", 1, 8, 6, None, None, ())]
    assert list(records_of(source_batch(*records))) == records
    assert list(records_of(source_batch(records[1]))) == [records[1]]


def test_records_pass_a_shuffle() -> None:
    outputs: list[Moved] = [(b"k", b"v", 5, [("h", b"1")], "t", 0, 8), (b"l", None, 6, (), "t", 0, 9)]
    [rows] = forwarded_rows(2, [3, 1], 4, "r", outputs, origins=np.array([8, 9]))
    assert rows.column("origin").to_pylist() == [8, 9]
    assert rows.column("task").to_pylist() == [3, 1]
    assert rows.column("stage").to_pylist() == [2, 2]
    assert list(records_of(rows)) == [
        Record("r", 4, 0, 5, b"k", b"v", [("h", b"1")]),
        Record("r", 4, 1, 6, b"l", None, ()),
    ]


def test_source_records_pass_a_shuffle() -> None:
    records = [Record("t", 1, 7, 5, b"k", b"v", [("h", b"1")]), Record("t", 1, 8, 6, None, None, ())]
    assert list(records_of(passed_rows(source_batch(*records), 1, [0, 0]))) == records
