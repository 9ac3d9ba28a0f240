"""Commands on apps act on apps alone; a change of size or code that fails leaves the app as it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.engine.runtime.scale import AppScale, read_scale, write_scale
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.ops.control import app_actions
from storekeeper.ops.control.app_actions import AppChanges, change_app, scale_after
from storekeeper.ops.control.app_control import AppFailedError
from storekeeper.program import ExitCode, exit_code_of
from tests.ops.control.test_app_control import Bench, FakeSupervisor


class Programs:
    """A supervisor with processes of every kind."""

    def names(self) -> list[str]:
        return ["airflow-scheduler", "control", "kafka", "node-a", "pos", "ticks"]


@pytest.mark.parametrize("name", ["kafka", "node-a", "control", "airflow-scheduler", "none"])
def test_a_name_that_is_no_apps_is_refused_with_those_of_apps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_actions, "supervisor_of", lambda _: Programs())
    with pytest.raises(ConfigurationError, match=rf"^{name} is no app of this platform: name one of pos, ticks$"):
        change_app(name, "restart", {}, check=lambda: None)


class Changed:
    """An app that runs, and comes up again only if `comes_up` says so."""

    def __init__(self, folder: Path, check: Callable[[], object] = lambda: None) -> None:
        self.bench = Bench(folder, FakeSupervisor("RUNNING"))
        self.bench.beat(AppState.RUNNING, offsets={"pos": {"0": 10}}, last_progress_ms=1)
        self.file = folder / "scale.json"
        self.comes_up: Callable[[], bool] = lambda: True
        self.offset = 10
        self.bench.supervisor.on_stop = lambda: setattr(self.bench.supervisor, "state", "STOPPED")
        self.bench.supervisor.on_start = self._start
        self.changes = AppChanges("pos", self.bench.control, self.file, check)

    def _start(self) -> None:
        if self.comes_up():
            self.bench.supervisor.state = "RUNNING"
            self.bench.beat(AppState.RUNNING, offsets={"pos": {"0": self.offset}}, last_progress_ms=1)
        else:
            self.bench.supervisor.state = "EXITED"
            self.bench.beat(AppState.FAILED, error="no memory")


def test_values_are_set_kept_and_unset() -> None:
    nothing: dict[str, int | None] = {"cores": None, "memory_mb": None, "max_offsets_per_trigger": None}
    some = scale_after(AppScale(), nothing | {"cores": 4, "memory_mb": 2048})
    assert some == AppScale(cores=4, memory_mb=2048)
    assert scale_after(some, nothing | {"cores": 0}) == AppScale(memory_mb=2048)
    with pytest.raises(InvalidArgumentError, match="`memory_mb` can't be used"):
        scale_after(AppScale(), nothing | {"memory_mb": 100})
    with pytest.raises(InvalidArgumentError, match="needs at least one of --cores, --memory-mb"):
        scale_after(AppScale(), nothing)


def test_a_new_size_restarts_the_app_and_the_same_one_leaves_it_alone(tmp_path: Path) -> None:
    app = Changed(tmp_path)
    assert app.changes.scale({"cores": 4}) is True
    assert (read_scale(app.file), app.bench.supervisor.asked) == (AppScale(cores=4), ["stop", "start"])
    assert app.changes.scale({"cores": 4}) is False
    assert app.bench.supervisor.asked == ["stop", "start"]


def test_an_app_that_somebody_started_before_the_size_was_there_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Changed(tmp_path)

    def late(path: Path, scale: AppScale) -> None:
        app.bench.control.start()
        write_scale(path, scale)

    monkeypatch.setattr("storekeeper.ops.control.app_actions.write_scale", late)
    assert app.changes.scale({"cores": 4}) is True
    assert app.bench.supervisor.asked == ["stop", "start", "stop", "start"]


def test_an_app_whose_size_can_not_be_written_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Changed(tmp_path)

    def full(_: Path, __: AppScale) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("storekeeper.ops.control.app_actions.write_scale", full)
    with pytest.raises(OSError, match="No space left"):
        app.changes.scale({"cores": 4})
    assert app.bench.supervisor.asked == ["stop", "start"]


def test_an_app_that_does_not_come_up_has_its_old_size_back(tmp_path: Path) -> None:
    app = Changed(tmp_path)
    write_scale(app.file, AppScale(cores=2))
    app.comes_up = lambda: read_scale(app.file).cores == 2
    with pytest.raises(AppFailedError, match=r"scale failed: .*no memory(.|\n)*It runs again as before") as caught:
        app.changes.scale({"cores": 4})
    assert read_scale(app.file) == AppScale(cores=2)
    assert app.bench.supervisor.state == "RUNNING"
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION, "a retry would do the same again"


def test_an_upgrade_reads_on_from_where_it_was_drained(tmp_path: Path) -> None:
    app = Changed(tmp_path)
    assert app.changes.upgrade() is True
    app.offset = 3
    with pytest.raises(AppFailedError, match="was drained at offset 10 of pos partition 0, but goes on at 3"):
        app.changes.upgrade()


def test_code_that_cannot_take_over_leaves_the_app_alone(tmp_path: Path) -> None:
    def check() -> None:
        raise ConfigurationError("a module is missing")

    app = Changed(tmp_path, check)
    with pytest.raises(ConfigurationError, match=r"pos runs on as it was: .* a module is missing"):
        app.changes.upgrade()
    assert app.bench.supervisor.asked == []
