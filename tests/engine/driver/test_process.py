"""Several apps in one driver: one Spark context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spark_apps.hadoop_export import HADOOP_EXPORT
from spark_apps.leaderboard import LEADERBOARD
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.driver import process as driver
from storekeeper.engine.driver import runner
from storekeeper.engine.driver.process import run_apps
from storekeeper.engine.driver.runner import AppRun
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.scale import AppScale, write_scale
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.generations import run as run_module
from storekeeper.generations.desired_state import Role
from storekeeper.generations.run import GenerationRun, run_of

CONTEXT: Any = object()


@dataclass
class Contexts:
    """The contexts that were started, by name, and how many were stopped."""

    started: dict[str, AppSettings] = field(default_factory=dict)
    stopped: int = 0

    def start_for_apps(self, name: str, _: object, settings: AppSettings) -> object:
        self.started[name] = settings
        return CONTEXT

    def stop(self, stopped: object) -> None:
        assert stopped is CONTEXT
        self.stopped += 1


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> Contexts:
    """In place of Spark's."""
    found = Contexts()
    for module in (driver, runner, run_module):
        monkeypatch.setattr(module, "start_for_apps", found.start_for_apps)
        monkeypatch.setattr(module, "stop_spark", found.stop)
        monkeypatch.setattr(module, "jvm_pid", lambda _: None)
    return found


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


def behave(monkeypatch: pytest.MonkeyPatch, behaviour: Callable[[AppRun | GenerationRun], None]) -> None:
    """Has each app do that instead of running."""
    monkeypatch.setattr(AppRun, "__call__", behaviour)
    monkeypatch.setattr(GenerationRun, "__call__", behaviour)


def test_apps_of_one_driver_run_on_one_context_until_they_are_to_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contexts: Contexts, stop: threading.Event
) -> None:
    settings, runs = AppSettings(run_dir=tmp_path), threading.Barrier(2)

    def behaviour(run: AppRun | GenerationRun) -> None:
        assert run.shared is CONTEXT
        if runs.wait(30) == 0:  # both run at once
            with pytest.raises(AppRunningError):
                Lease(settings.lease_file("shared_driver"), clock=SystemClock(), wait=lambda _: None).acquire(0)
            stop.set()
        assert stop.wait(30)
        assert not contexts.stopped

    behave(monkeypatch, behaviour)
    write_scale(settings.scale_file("shared_driver"), AppScale(memory_mb=2048))
    run_apps([TICKS, HADOOP_EXPORT], settings, SystemClock(), stop, run_of)
    assert {name: dict(started.spark) for name, started in contexts.started.items()} == {
        "shared_driver": {"spark.driver.memory": "2048m"}
    }
    assert contexts.stopped == 1


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that failed is started again without a pause."""
    monkeypatch.setattr(driver, "_PAUSE_S", 0.0)


@pytest.mark.usefixtures("at_once", "contexts")
def test_an_app_that_fails_is_started_again_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stop: threading.Event
) -> None:
    starts: list[str] = []
    failed_for_good = threading.Event()

    def behaviour(run: AppRun | GenerationRun) -> None:
        starts.append(run.spec.name)
        if run.spec is not LEADERBOARD:
            assert failed_for_good.wait(30)
            assert not run.stop.is_set()
            return
        if starts.count("leaderboard") == 4:
            failed_for_good.set()
        raise StateError("again")

    behave(monkeypatch, behaviour)
    run_apps([TICKS, LEADERBOARD], AppSettings(run_dir=tmp_path), SystemClock(), stop, run_of)
    assert (starts.count("ticks"), starts.count("leaderboard")) == (1, 4)


@pytest.mark.usefixtures("at_once")
def test_the_driver_ends_with_the_first_error_once_all_have_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contexts: Contexts, stop: threading.Event
) -> None:
    starts: list[str] = []

    def behaviour(run: AppRun | GenerationRun) -> None:
        starts.append(run.spec.name)
        raise ConfigurationError(run.spec.name)

    behave(monkeypatch, behaviour)
    with pytest.raises(ConfigurationError, match="ticks"):
        run_apps([TICKS, LEADERBOARD], AppSettings(run_dir=tmp_path), SystemClock(), stop, run_of)
    assert sorted(starts) == ["leaderboard", "ticks"]
    assert contexts.stopped == 1


@pytest.mark.usefixtures("contexts")
def test_an_error_that_may_be_the_contexts_stops_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stop: threading.Event
) -> None:
    stopped: list[bool] = []

    def behaviour(run: AppRun | GenerationRun) -> None:
        if run.spec is LEADERBOARD:
            raise ConnectionRefusedError("the JVM is gone")
        stopped.append(run.stop.wait(30))

    behave(monkeypatch, behaviour)
    with pytest.raises(ConnectionRefusedError):
        run_apps([TICKS, LEADERBOARD], AppSettings(run_dir=tmp_path), SystemClock(), stop, run_of)
    assert stopped == [True]


def test_an_app_alone_starts_its_own_context_at_its_own_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contexts: Contexts, stop: threading.Event
) -> None:
    settings, ran = AppSettings(run_dir=tmp_path), list[AppRun | GenerationRun]()

    def behaviour(run: AppRun | GenerationRun) -> None:
        ran.append(run)

    behave(monkeypatch, behaviour)
    write_scale(settings.scale_file("ticks"), AppScale(cores=7))
    run_apps([TICKS], settings, SystemClock(), stop, run_of)
    (run,) = ran
    assert (run.shared, run.settings.spark_master, contexts.started) == (None, "local[7]", {})


def test_an_app_leaves_the_context_of_its_driver_to_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, contexts: Contexts, stop: threading.Event
) -> None:
    @contextmanager
    def unwatched(*_: object) -> Iterator[None]:
        yield

    used: list[object] = []

    def stream(_: AppRun, spark: object, *__: object) -> None:
        used.append(spark)
        stop.set()

    settings = AppSettings(run_dir=tmp_path)
    monkeypatch.setattr(AppRun, "_query", stream)
    monkeypatch.setattr(GenerationRun, "_watching", unwatched)
    monkeypatch.setattr(runner, "preflight", lambda *_: None)
    GenerationRun(POS, settings, SystemClock(), stop, Role.LIVE, shared=CONTEXT)()
    stop.clear()
    AppRun(HADOOP_EXPORT, settings, SystemClock(), stop, shared=CONTEXT)()
    assert used == [CONTEXT, CONTEXT]
    assert (contexts.started, contexts.stopped) == ({}, 0)
