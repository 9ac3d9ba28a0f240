"""Records keep what they are, and their order, on their way between stages."""

from __future__ import annotations

import random

import pyarrow as pa

from spark_apps.engine.rows import SCHEMA, encoded_headers, forwarded_rows, in_order, passed_rows, records_of
from state.topology.records import Output, Record

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
    outputs: list[Output] = [(b"k", b"v", 5, [("h", b"1")]), (b"l", None, 6, ())]
    rows = forwarded_rows(2, [3, 1], 4, "r", outputs)
    assert rows.column("task").to_pylist() == [3, 1]
    assert rows.column("stage").to_pylist() == [2, 2]
    assert list(records_of(rows)) == [
        Record("r", 4, 0, 5, b"k", b"v", [("h", b"1")]),
        Record("r", 4, 1, 6, b"l", None, ()),
    ]


def test_source_records_pass_a_shuffle() -> None:
    records = [Record("t", 1, 7, 5, b"k", b"v", [("h", b"1")]), Record("t", 1, 8, 6, None, None, ())]
    assert list(records_of(passed_rows(source_batch(*records), 1, [0, 0]))) == records


def test_no_partition_changes_its_order_and_topics_are_merged_by_time() -> None:
    times = {("a", 0): [1, 9, 3, 10], ("a", 1): [2, 4, 5], ("b", 0): [0, 2, 8]}
    records = [
        Record(topic, partition, offset, time, None, None)
        for (topic, partition), row in times.items()
        for offset, time in enumerate(row)
    ]
    shuffled = [passed_rows(source_batch(record), 1, [0]) for record in random.Random(1).sample(records, len(records))]
    rows = pa.Table.from_batches(shuffled, SCHEMA).combine_chunks().to_batches()[0]
    ordered = list(records_of(in_order(rows)))
    assert [record[:2] + record[3:4] for record in ordered] == [
        ("b", 0, 0), ("a", 0, 1), ("a", 1, 2), ("b", 0, 2), ("a", 1, 4), ("a", 1, 5), ("b", 0, 8), ("a", 0, 9),
        ("a", 0, 3), ("a", 0, 10),
    ]  # fmt: skip
