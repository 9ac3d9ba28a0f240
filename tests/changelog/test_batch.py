"""Folding records to the last row of each key."""

from __future__ import annotations

from storekeeper.changelog.batch import fold
from storekeeper.stores.row import ReplicaRow, decode_row
from tests.changelog.messages import Record


def test_the_last_record_in_log_order_wins_whatever_its_timestamp() -> None:
    folded = fold([Record(1, b"k", b"old", at_ms=99), Record(2, b"j", b"x"), Record(3, b"k", b"new", at_ms=5)])
    rows = {key: decode_row(row) for key, row in folded.entries if row is not None}
    assert rows == {b"k": ReplicaRow(1, 5, b"new"), b"j": ReplicaRow(1, 0, b"x")}


def test_a_tombstone_deletes_and_an_empty_value_does_not() -> None:
    folded = dict(fold([Record(1, b"gone", b"v"), Record(2, b"gone", None), Record(3, b"empty", b"")]).entries)
    assert folded[b"gone"] is None
    row = folded[b"empty"]
    assert row is not None
    assert decode_row(row).value == b""


def test_a_value_after_a_tombstone_is_back() -> None:
    ((key, row),) = fold([Record(1, b"k", None), Record(2, b"k", b"v")]).entries
    assert key == b"k"
    assert row is not None


def test_the_schema_version_of_each_record_is_kept() -> None:
    ((_, row),) = fold([Record(1, b"k", b"v", record_headers=(("app", b"a"), ("schema-version", b"3")))]).entries
    assert row is not None
    assert decode_row(row).schema_version == 3


def test_the_source_is_that_of_the_newest_record_that_names_one() -> None:
    def record(at: int, end: int | None, value: bytes | None = b"v") -> Record:
        source = [] if end is None else [("source-position", b'{"pos":{"0":[0,%d]}}' % end)]
        return Record(at, b"%d" % at, value, record_headers=(("schema-version", b"1"), *source))

    assert fold([record(1, 5), record(2, 9, None), record(3, None)]).source == {"pos": {0: (0, 9)}}
    assert fold([record(1, 5), record(2, 9, None), record(3, 5)]).source == {"pos": {0: (0, 5)}}
    assert fold([record(1, None)]).source is None
