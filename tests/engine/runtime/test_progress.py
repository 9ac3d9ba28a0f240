from __future__ import annotations

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.engine.runtime.progress import BatchReport, Progress, advanced, offsets_of, with_progress

ROWS = {4: 10, 5: 20}


def report(batch_id: int) -> BatchReport:
    return BatchReport(batch_id, 1000 * batch_id + 80, {"addBatch": 60, "triggerExecution": 80})


def test_reports_add_up() -> None:
    progress = advanced(Progress(), [report(4), report(5)], ROWS)
    phases = {"addBatch": 120, "triggerExecution": 160}
    recent = ((4080, 10), (5080, 20))
    assert progress == Progress(5, 20, 30, recent, 80, batches_total=2, phases_ms_total=phases)


def test_a_report_is_counted_once() -> None:
    progress = advanced(Progress(), [report(4)], ROWS)
    assert advanced(progress, [report(4)], ROWS) is progress
    assert advanced(progress, [report(4), report(5)], ROWS).input_rows_total == 30


def test_a_heartbeat_shows_progress_and_offsets() -> None:
    beat = Heartbeat("pos", 1, 7, AppState.RUNNING, 0, 0)
    shown = with_progress(beat, advanced(Progress(), [report(4)], ROWS), 5000)
    assert (shown.batch_id, shown.input_rows_total) == (4, 10)
    assert offsets_of(Position({"pos": {1: 5, 0: 4}})) == {"pos": {"0": 4, "1": 5}}


def test_the_rate_is_that_of_the_last_seconds_and_ends_with_the_batches() -> None:
    progress = advanced(Progress(), [report(4), report(5)], ROWS)
    assert progress.rows_per_second(6000) == 3.0
    assert progress.rows_per_second(14_500) == 2.0
    assert progress.rows_per_second(60_000) == 0.0
    assert advanced(progress, [report(30)], {30: 7}).recent == ((30_080, 7),), "old batches are forgotten"
    beat = with_progress(Heartbeat("pos", 1, 7, AppState.RUNNING, 0, 0), progress, 60_000)
    assert (beat.input_rows_per_second, beat.last_batch_ms) == (0.0, 5080)


def test_long_batches_have_a_rate_from_one_to_the_next() -> None:
    long = BatchReport(4, 34_000, {"addBatch": 1, "triggerExecution": 30_000})
    progress = advanced(Progress(), [long], {4: 9000})
    assert progress.rows_per_second(64_000) == 150.0


def test_an_app_that_has_done_no_batch_says_so() -> None:
    beat = with_progress(Heartbeat("pos", 1, 7, AppState.RUNNING, 0, 0), Progress(), 5000)
    assert (beat.last_batch_ms, beat.input_rows_per_second) == (None, 0.0)
