"""Progress of a restore."""

from __future__ import annotations

import structlog

from storekeeper.changelog.listener import RestoreEvent, RestoreProgress, logging_listener
from storekeeper.clock import ManualClock


def progress(offset: int, records: int, elapsed_s: float) -> RestoreProgress:
    return RestoreProgress("rewards", 0, 100, offset, 500, records, elapsed_s)


def test_rate_counts_records_and_the_remaining_time_counts_offsets() -> None:
    half = progress(offset=300, records=50, elapsed_s=2.0)
    assert half.records_per_second == 25.0
    assert half.remaining == 200
    assert half.eta_s == 2.0


def test_there_is_no_guess_before_the_first_batch() -> None:
    assert progress(100, 0, 0.0).eta_s is None
    assert progress(100, 0, 0.0).records_per_second == 0.0


def test_nothing_remains_at_the_end_or_past_it() -> None:
    assert progress(500, 1, 0.0).eta_s == 0.0
    assert progress(501, 1, 1.0).remaining == 0


def test_progress_is_logged_now_and_then() -> None:
    clock = ManualClock()
    listener = logging_listener(clock)
    with structlog.testing.capture_logs() as logs:
        listener(RestoreEvent.STARTED, progress(100, 0, 0))
        listener(RestoreEvent.PROGRESS, progress(200, 10, 1))
        clock.advance(10_000)
        listener(RestoreEvent.PROGRESS, progress(300, 20, 11))
        listener(RestoreEvent.PROGRESS, progress(400, 30, 12))
        listener(RestoreEvent.ENDED, progress(500, 40, 13))
    assert [entry["event"] for entry in logs] == ["restore_started", "restore_progress", "restore_ended"]
