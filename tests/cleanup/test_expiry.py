from __future__ import annotations

from storekeeper.changelog.log_record import LogRecord
from storekeeper.cleanup.expiry import added, content_of, no_ages
from storekeeper.clock import DAY_MS
from storekeeper.masked_keys import masked_key

NOW = 1000 * DAY_MS


def aged(offset: int, key: bytes, days: float, value: bytes | None = b"12345") -> LogRecord:
    return LogRecord(offset, round(NOW - days * DAY_MS), key, value)


def test_a_row_is_as_old_as_its_newest_record() -> None:
    records = [
        aged(0, b"old", 100),
        aged(1, b"refreshed", 100),
        aged(2, b"deleted", 100),
        aged(3, b"young", 3),
        aged(4, b"refreshed", 1),
        aged(5, b"deleted", 50, None),
        aged(6, b"clock went back", 2),
        aged(7, b"clock went back", 200),
    ]
    content = content_of(records, cutoff_ms=NOW - 90 * DAY_MS, now_ms=NOW)
    assert [record.key for record in content.expired] == [b"old", b"clock went back"]
    assert content.rows == 4
    assert content.size_bytes == sum(map(len, (b"old", b"refreshed", b"young", b"clock went back"))) + 4 * 5
    rows = {age.below_days: age.rows for age in content.ages if age.rows}
    assert rows == {7: 2, 180: 1, 365: 1}


def test_a_row_of_exactly_the_limit_is_not_expired_yet() -> None:
    records = [aged(0, b"a", 90), LogRecord(1, NOW - 90 * DAY_MS - 1, b"b", b"")]
    assert [row.key for row in content_of(records, cutoff_ms=NOW - 90 * DAY_MS, now_ms=NOW).expired] == [b"b"]


def test_records_without_a_key_are_left_out_and_histograms_add_up() -> None:
    one = content_of([LogRecord(0, NOW, None, b"x"), aged(1, b"a", 800)], cutoff_ms=0, now_ms=NOW)
    assert one.rows == 1
    assert added(added(no_ages(), one.ages), one.ages)[-1].rows == 2


def test_a_shown_key_does_not_tell_who_it_is() -> None:
    assert masked_key(b"4111111111111111") == "••••••••••11 (16 bytes)"
    assert masked_key(b"short") == "••••• (5 bytes)"
    assert "\x00" not in masked_key(b"\x00" * 20)
