"""What Spark's workers make of a changelog's records."""

from __future__ import annotations

from storekeeper.snapshots.changes import _changes
from storekeeper.topology.records import RecordFields


def test_changes_have_the_batch_of_their_record_and_what_is_no_row_has_a_reason() -> None:
    good = [("schema-version", b"1"), ("generation", b"2"), ("batch-id", b"17")]
    records: list[RecordFields] = [
        ("t", 3, 5, 1000, b"k", b"v", good),
        ("t", 3, 6, 1001, b"k", None, [("generation", None), ("batch-id", b"9" * 30)]),
        ("t", 3, 7, 2**62, b"k", b"v", good),
        ("t", 3, 8, 1002, None, b"v", good),
        ("t", 3, 9, 1003, b"k", b"v", ()),
    ]
    [batch] = _changes(records)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (3, 5, 1000, b"k", b"v", 2, 17, None),
        (3, 6, 1001, b"k", None, None, None, None),
        (3, 7, 2**62, b"k", None, None, None, "bad-timestamp"),
        (3, 8, 1002, None, None, None, None, "null-key"),
        (3, 9, 1003, b"k", None, None, None, "no-schema-version"),
    ]
