from __future__ import annotations

import math

import pytest

from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.cleanup.cleanup import RowOutcome, cleanup_outcome
from storekeeper.cleanup.cleanup_plan import CleanupOptions, CleanupPlan
from storekeeper.cleanup.expiry import no_ages
from storekeeper.errors import InvalidArgumentError, SerializationError

DELETE, RESTORE = CleanupAction.DELETE, CleanupAction.RESTORE


def told(*steps: tuple[bytes, CleanupAction | str]) -> list[LogRecord]:
    return [
        LogRecord(number, 0, key, b"", cleanup_headers([], "c1", what, 0) if isinstance(what, CleanupAction) else ())
        for number, (key, what) in enumerate(steps)
    ]


def test_each_key_has_the_fate_of_its_newest_record() -> None:
    records = told(
        (b"a", DELETE), (b"b", "app"), (b"c", DELETE), (b"c", "app"), (b"d", DELETE), (b"d", RESTORE), (b"x", "app")
    )
    fates = cleanup_outcome({b"a", b"b", b"c", b"d", b"e"}, records, "c1")
    assert fates.by_key == {
        b"a": RowOutcome.DELETED,
        b"b": RowOutcome.TOUCHED,
        b"c": RowOutcome.CAME_BACK,
        b"d": RowOutcome.RESTORED,
    }
    assert (fates.hit, fates.foreign) == (set(), set())


def test_a_refreshed_key_that_was_deleted_and_a_key_that_was_not_expired_are_found() -> None:
    records = told((b"a", "app"), (b"a", DELETE), (b"x", DELETE))
    fates = cleanup_outcome({b"a"}, records, "c1")
    assert (fates.hit, fates.foreign) == ({b"a"}, {b"x"})


def test_another_cleanup_is_somebody_else() -> None:
    assert cleanup_outcome({b"a"}, told((b"a", DELETE)), "c2").by_key == {b"a": RowOutcome.TOUCHED}


def test_a_record_of_a_cleanup_is_one_of_the_same_batch_but_of_no_input() -> None:
    original = [("schema-version", b"1"), ("batch-id", b"7"), ("source-position", b"{}")]
    headers = cleanup_headers(original, "c1", DELETE, 5)
    assert headers[:2] == original[:2]
    assert "source-position" not in dict(headers)
    again = cleanup_headers(headers, "c2", RESTORE, 6)
    assert [name for name, _ in again].count("cleanup") == 1


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = CleanupPlan(
        *("20260101T000000000Z", "rewards", "t", "id", CleanupOptions(5), 10, 5, {0: 3, 11: 4}),
        *(1000, 2000, 10, 20, no_ages(), ("0@1 ••",), 99),
    )
    assert CleanupPlan.from_json(plan.to_json()) == plan
    assert "10 of 1,000 rows" in plan.as_text()
    with pytest.raises(SerializationError):
        CleanupPlan.from_json(b"[]")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"ttl_ms": 0}, {"canary_share": 1.1}, {"canary_share": math.nan}, {"undo_ms": -1}),
        *({"tombstones_per_s": 0}, {"tombstones_per_s": math.inf}, {"tombstones_per_s": math.nan}),
    ],
)
def test_options_that_can_not_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError):
        CleanupOptions(**{"ttl_ms": 1, **wrong})  # type: ignore[arg-type]
