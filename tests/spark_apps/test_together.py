from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from spark_apps import together
from spark_apps.apps.ticks import TICKS
from spark_apps.generations.catalog import first_journal
from spark_apps.generations.journal import JournalFile
from spark_apps.registry import ON_DEMAND_APPS
from spark_apps.runner import AppRun
from spark_apps.settings import AppSettings
from spark_apps.sharing import check_sharing, detached_apps, sharing_apps
from spark_apps.spec import AppSpec
from spark_apps.together import run_together
from state.clock import SystemClock
from state.errors import ConfigurationError


@dataclass
class FirstBatch:
    """A query whose first batch is over when it has been asked for that a few times."""

    isActive = True  # noqa: N815 (Spark's name)
    status = {"message": "Processing new data"}  # noqa: RUF012
    asked: int = 0

    @property
    def lastProgress(self) -> object:  # noqa: N802 (Spark's name)
        self.asked += 1
        return {} if self.asked > 20 else None


def detach(app: AppSpec, run_dir: Path) -> None:
    JournalFile(run_dir, app.name).write(first_journal(app))


def test_an_app_that_runs_by_itself_does_not_run_with_the_others(tmp_path: Path) -> None:
    assert (sharing_apps(tmp_path), detached_apps(tmp_path)) == (ON_DEMAND_APPS, {})
    detach(TICKS, tmp_path)
    assert detached_apps(tmp_path) == {"ticks": TICKS}
    assert sharing_apps(tmp_path) == {name: app for name, app in ON_DEMAND_APPS.items() if name != "ticks"}
    with pytest.raises(ConfigurationError, match="start it by `run ticks`, and name the other apps here"):
        check_sharing("ticks", tmp_path)
    check_sharing("leaderboard", tmp_path)


def test_with_no_app_left_it_waits_to_be_stopped_and_starts_no_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "start_session", lambda *_: pytest.fail("a session was started"))
    detach(TICKS, tmp_path)  # by somebody who was a moment faster
    stop = threading.Event()
    process = threading.Thread(target=run_together, args=([TICKS], AppSettings(run_dir=tmp_path), SystemClock(), stop))
    process.start()
    process.join(0.5)
    assert process.is_alive(), "whoever keeps it alive would start it again"
    stop.set()
    process.join()


def test_apps_begin_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[FirstBatch] = []

    def begin(*_: object) -> FirstBatch:
        assert all(query.lastProgress is not None for query in begun), "another one's first batch isn't over"
        begun.append(FirstBatch())
        return begun[-1]

    monkeypatch.setattr(AppRun, "begin", begin)
    monkeypatch.setattr(together, "_POLL_S", 0.001)
    turn, settings = threading.Lock(), AppSettings(run_dir=tmp_path)
    with ThreadPoolExecutor() as threads:
        members = [
            together._Member(app, settings, SystemClock(), threading.Event(), turn=turn)
            for app in ON_DEMAND_APPS.values()
        ]
        nothing = cast("Any", None)
        assert all(threads.map(lambda member: member.begin(nothing, nothing, nothing), members))
    assert len(begun) == len(ON_DEMAND_APPS)
