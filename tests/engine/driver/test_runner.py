"""A running app: which batches it refuses, and what its heartbeat says."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog.testing

from spark_apps.ticks import TICKS
from storekeeper.apps.errors import PartitionsChangedError, UnusableCheckpointError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.clock import SystemClock
from storekeeper.engine.dead_letters import Letters
from storekeeper.engine.driver.preflight import Preflight
from storekeeper.engine.driver.runner import AppRun, Watch, first_heartbeat
from storekeeper.engine.restore_progress import Restoring, reporting, restore_dir
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.engine.runtime.progress import BatchReport
from storekeeper.engine.runtime.sink_metrics import Written
from storekeeper.engine.runtime.stream import Stream, StreamContext
from storekeeper.engine.runtime.topics import Topics
from tests.apps.checkpoints import write_checkpoint
from tests.engine.runtime.test_progress import report as reported

NOTHING = cast("Any", None)


@pytest.fixture
def run(tmp_path: Path) -> AppRun:
    return AppRun(TICKS, AppSettings(run_dir=tmp_path), SystemClock(), threading.Event())


def test_a_batch_that_reads_new_partitions_is_not_begun(
    run: AppRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics, "ids", lambda *_: {})
    topic = "market-ticks"
    ends = [{topic: dict.fromkeys(map(str, range(count)), 5)} for count in (6, 8)]
    write_checkpoint(tmp_path / "gen-1", ends, committed=1, initial=None)
    begun: list[int] = []
    process = run._on_same_topics(
        begun.append,
        BatchCheckpoint(tmp_path / "gen-1"),
        CheckpointOwner("ticks", 1, partitions={topic: 6}),
    )
    process(0)
    with pytest.raises(PartitionsChangedError, match=f"topic {topic} has 8 partitions, .* ticks was made with 6"):
        process(1)
    assert begun == [0]


def test_a_batch_of_a_recreated_topic_is_not_begun(
    run: AppRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, ids = "market-ticks", ["AAA", "BBB"]
    write_checkpoint(tmp_path / "gen-1", [{topic: {"0": 5}}, {topic: {"0": 9}}], committed=1, initial=None)
    monkeypatch.setattr(Topics, "ids", lambda *_: {topic: ids.pop(0)})
    begun: list[int] = []
    process = run._on_same_topics(
        begun.append,
        BatchCheckpoint(tmp_path / "gen-1"),
        CheckpointOwner("ticks", 1, topic_ids={topic: "AAA"}),
    )
    process(0)
    with pytest.raises(UnusableCheckpointError, match=f"topic {topic} was deleted and recreated"):
        process(1)
    assert begun == [0]


def test_a_query_whose_app_fails_right_after_the_start_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []

    class Begun(AppRun):
        def begin(self, *_: object) -> Any:
            return SimpleNamespace(stop=lambda: stopped.append(True))

    def away(*_: object) -> dict[str, str]:
        raise BrokerUnavailableError("nobody listens")

    monkeypatch.setattr("storekeeper.engine.driver.runner.opened", lambda _: Stream(NOTHING, NOTHING))
    monkeypatch.setattr(Topics, "ids", away)
    found = cast("Any", SimpleNamespace(claim=SimpleNamespace(partitions={}, slots={})))
    run = Begun(TICKS, AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1"), SystemClock(), threading.Event())
    with pytest.raises(BrokerUnavailableError):
        run._query(NOTHING, NOTHING, found)
    assert stopped == [True]


class Reporting:
    """A query that has data, and reports the batches that are added. At first none has ended."""

    has_data = True

    def __init__(self) -> None:
        self.reports: list[BatchReport] = []


@pytest.fixture
def context(tmp_path: Path) -> StreamContext:
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1")
    return StreamContext(TICKS, NOTHING, settings, BatchCheckpoint(tmp_path / "gen-1"))


def watching(run: AppRun, context: StreamContext, query: Reporting) -> Watch:
    own = replace(run, settings=context.settings)
    return Watch(own, cast("Any", query), context, Preflight(NOTHING, Position(), Position()))


def letters(count: int, error: str = "ValueError") -> tuple[Letters, ...]:
    return (Letters("ticks", error, "no number", count),)


def test_a_batch_has_a_line_in_the_log_for_each_kind_of_dead_letter(context: StreamContext) -> None:
    of_tasks = [Written(5, letters(2)), Written(5, letters(1, "KeyError")), Written(5, letters(3)), Written(5)]
    with structlog.testing.capture_logs() as lines:
        context.wrote(7, sum(of_tasks, Written()))
        context.wrote(8, Written(rows=5))
    told = {"event": "dead_letters", "log_level": "warning", "app": "ticks", "batch": 7, "topic": "ticks"}
    assert lines == [
        {**told, "error": "ValueError", "reason": "no number", "count": 5},
        {**told, "error": "KeyError", "reason": "no number", "count": 1},
    ]
    assert (context.metrics.sum.rows, context.metrics.sum.dead_letters) == (25, 6)


def test_too_many_dead_letters_among_the_records_stop_the_app(
    run: AppRun, context: StreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics, "end", lambda *_: Position())
    watch = watching(run, context, Reporting())
    beat = Heartbeat("ticks", 1, 7, AppState.RUNNING, 0, 0)
    context.metrics.add(0, Written(rows=1000))
    watch(beat)
    context.metrics.add(1, Written(rows=50_000, letters=letters(2000)))
    assert watch(beat).dead_letters_total == 2000
    assert watch.tripped is None
    context.metrics.add(2, Written(rows=60_000, letters=letters(60_000)))
    watch(beat)
    assert watch.tripped is not None


def test_a_heartbeat_has_the_records_that_tasks_have_read(
    run: AppRun, context: StreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics, "end", lambda *_: Position())
    query = Reporting()
    watch = watching(run, context, query)
    for batch in range(300):
        context.metrics.add(batch, Written(rows=batch))
    query.reports += [reported(298), reported(299)]
    beat = watch(Heartbeat("ticks", 1, 7, AppState.RUNNING, 0, 0))
    assert (beat.input_rows, beat.input_rows_total) == (299, 298 + 299)


def test_dead_letters_and_records_left_out_are_counted_on_over_restarts(
    run: AppRun, context: StreamContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics, "end", lambda *_: Position())
    path = tmp_path / "ticks.json"
    write_heartbeat(path, Heartbeat("ticks", 1, 7, AppState.STOPPED, 0, 0, dead_letters_total=180, dropped_total=3))
    first = first_heartbeat(path, TICKS, 1, SystemClock())
    watch = watching(run, context, Reporting())
    assert (watch(first).dead_letters_total, watch(first).dropped_total) == (180, 3)
    context.metrics.add(1, Written(letters=letters(20)))
    assert watch(watch(first)).dead_letters_total == 200


def test_a_restore_that_gets_on_is_progress_and_is_told(run: AppRun, context: StreamContext) -> None:
    watch = watching(run, context, Reporting())
    first = watch(Heartbeat("ticks", 1, 7, AppState.RUNNING, 0, 0))
    assert (first.last_progress_ms, first.restoring) == (None, ())
    with reporting(restore_dir(context.settings, "ticks")) as report:
        report(Restoring("prices", 3, 10, 25))
        second = watch(first)
        assert second.restore_remaining == 15
        assert second.last_progress_ms is not None
        assert watch(second).last_progress_ms == second.last_progress_ms, "it stands still"
