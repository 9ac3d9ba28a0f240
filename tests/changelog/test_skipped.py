"""Which records are rows."""

from __future__ import annotations

import pytest

from storekeeper.changelog.batch import fold
from storekeeper.changelog.skipped import SkippedRecord, SkippedTotals, SkipReason, headers_of, skip_reason
from storekeeper.stores.row import decode_row
from tests.changelog.bad_records import GOOD, KINDS, NOW_MS, ROWS, SKIPPED, VALUE, Kind
from tests.changelog.messages import Record


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_is_judged(kind: Kind) -> None:
    assert skip_reason(kind.key, kind.value, kind.timestamp_ms, kind.headers or ()) is kind.reason


def test_a_batch_of_all_kinds_gives_the_rows_and_says_what_was_skipped() -> None:
    folded = fold([kind.record(offset) for offset, kind in enumerate(KINDS)])
    assert {key: decode_row(row).value for key, row in folded.entries if row is not None} == ROWS
    assert [(found.offset, found.reason) for found in folded.skipped] == [
        (offset, kind.reason) for offset, kind in enumerate(KINDS) if kind.reason is not None
    ]
    assert folded.source == GOOD.source


@pytest.mark.parametrize("kind", [kind for kind in SKIPPED if kind.key is not None], ids=lambda kind: kind.name)
def test_a_skipped_record_ends_the_row_of_its_key_as_compaction_would(kind: Kind) -> None:
    before = Record(0, kind.key, VALUE, NOW_MS, tuple(GOOD.encode()))
    bad, after = kind.record(1), Record(2, kind.key, b"again", NOW_MS, tuple(GOOD.encode()))
    assert fold([before, bad]).entries == fold([bad]).entries == [(kind.key, None)]
    ((_, row),) = fold([before, bad, after]).entries
    assert row is not None
    assert decode_row(row).value == b"again"


def test_a_run_of_equal_headers_does_not_hide_a_bad_record_in_it() -> None:
    headers = tuple(GOOD.encode())
    found = fold(
        [
            Record(0, b"a", VALUE, NOW_MS, headers),
            Record(1, b"b", VALUE, -1, headers),
            Record(2, None, VALUE, NOW_MS, headers),
            Record(3, b"c", VALUE, NOW_MS, headers),
        ]
    )
    assert [record.reason for record in found.skipped] == [SkipReason.BAD_TIMESTAMP, SkipReason.NULL_KEY]
    assert [key for key, row in found.entries if row is not None] == [b"a", b"c"]


class Undecodable:
    """The client's message with a header name that is not UTF-8. Asking it twice may end the process."""

    def __init__(self) -> None:
        self.asked = 0

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        self.asked += 1
        assert self.asked == 1
        return b"\xff".decode()  # type: ignore[return-value]


def test_a_header_name_that_can_not_be_decoded_is_a_reason_to_skip() -> None:
    assert skip_reason(b"k", b"v", NOW_MS, headers_of(Undecodable())) is SkipReason.BAD_HEADER_NAME


def test_totals_count_by_reason_and_know_the_last_offset() -> None:
    one = SkippedTotals().plus([SkippedRecord(4, NOW_MS, SkipReason.NULL_KEY)])
    two = one.plus([SkippedRecord(7, NOW_MS, SkipReason.BAD_BATCH_ID), SkippedRecord(9, NOW_MS, SkipReason.NULL_KEY)])
    assert two == SkippedTotals({"null-key": 2, "bad-batch-id": 1}, 9)
    assert (two.records, two.plus([])) == (3, two)
