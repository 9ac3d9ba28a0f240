from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spark_apps import together
from spark_apps.generations.catalog import first_journal
from spark_apps.generations.journal import JournalFile
from spark_apps.registry import ON_DEMAND_APPS
from spark_apps.settings import AppSettings
from spark_apps.sharing import check_sharing, detached_apps, sharing_apps
from spark_apps.spec import AppSpec
from spark_apps.ticks.spec import TICKS
from spark_apps.together import run_together
from state.clock import SystemClock
from state.errors import ConfigurationError


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
