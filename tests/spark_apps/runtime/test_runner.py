"""A running app: which batches it refuses, and what its heartbeat says."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from spark_apps.apps.ticks import TICKS
from spark_apps.engine.restores import Restoring, reporting, restore_dir
from spark_apps.errors import PartitionsChangedError
from spark_apps.runtime.checkpoint import SparkCheckpoint
from spark_apps.runtime.heartbeat import AppState, Heartbeat
from spark_apps.runtime.preflight import Preflight
from spark_apps.runtime.runner import AppRun, Watch
from spark_apps.runtime.stream import StreamContext
from spark_apps.runtime.topics import Topics
from spark_apps.settings import AppSettings
from state.changelog.errors import BrokerUnavailableError
from state.changelog.position import Position
from state.clock import SystemClock
from tests.spark_apps.checkpoints import write_checkpoint

NOTHING = cast("Any", None)


@pytest.fixture
def run(tmp_path: Path) -> AppRun:
    return AppRun(TICKS, AppSettings(run_dir=tmp_path), SystemClock(), threading.Event())


def test_a_batch_that_reads_new_partitions_is_not_begun(run: AppRun, tmp_path: Path) -> None:
    topic = "market-ticks"
    ends = [{topic: dict.fromkeys(map(str, range(count)), 5)} for count in (6, 8)]
    write_checkpoint(tmp_path / "gen-1", ends, committed=1, initial=None)
    begun: list[int] = []
    process = run._with_partitions(
        lambda _, batch_id: begun.append(batch_id), SparkCheckpoint(tmp_path / "gen-1"), {topic: 6}
    )
    process(NOTHING, 0)
    with pytest.raises(PartitionsChangedError, match=f"topic {topic} has 8 partitions, .* ticks was made with 6"):
        process(NOTHING, 1)
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

    monkeypatch.setattr("spark_apps.runtime.runner.opened", lambda _: SimpleNamespace(process=None))
    monkeypatch.setattr(Topics, "ids", away)
    found = cast("Any", SimpleNamespace(claim=SimpleNamespace(partitions={})))
    run = Begun(TICKS, AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1"), SystemClock(), threading.Event())
    with pytest.raises(BrokerUnavailableError):
        run._query(NOTHING, NOTHING, found)
    assert stopped == [True]


class Unfinished:
    """A query whose first batch has not ended."""

    recentProgress: tuple[()] = ()  # noqa: N815 (Spark's own custom)
    status: ClassVar = {"isDataAvailable": True}


def test_a_restore_that_gets_on_is_progress_and_is_told(run: AppRun, tmp_path: Path) -> None:
    nowhere = replace(run, settings=AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1"))
    checkpoint = SparkCheckpoint(tmp_path / "gen-1")
    context = StreamContext(TICKS, NOTHING, nowhere.settings, checkpoint)
    watch = Watch(nowhere, cast("Any", Unfinished()), context, Preflight(NOTHING, Position(), Position()))
    first = watch(Heartbeat("ticks", 1, 7, AppState.RUNNING, 0, 0))
    assert (first.last_progress_ms, first.restoring) == (None, ())
    with reporting(restore_dir(nowhere.settings, "ticks")) as report:
        report(Restoring("prices", 3, 10, 25))
        second = watch(first)
        assert second.restore_remaining == 15
        assert second.last_progress_ms is not None
        assert watch(second).last_progress_ms == second.last_progress_ms, "it stands still"
