"""Bringing up a platform: one part's failure is reported with its cause and leaves the others alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.ops import bring_up as module
from storekeeper.ops.bring_up import DAGS, Trouble, bring_up
from storekeeper.ops.environment import Instance
from storekeeper.ops.errors import LostTopicsError, StartError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.lost_topics import Losses
from storekeeper.ops.overview.model import Overview, Process
from storekeeper.ops.programs import AIRFLOW_PROGRAMS
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo
from storekeeper_provider import POOL

OWN = ("kafka", "control", "node-a", "node-b", "shop", "views")
CAUSE = "ended with exit code 78: topic views-log was deleted"


class FakeSupervisor:
    """Starts what it is asked for; a process that `ends` has ended with that exit code a moment later."""

    def __init__(self, ends: Mapping[str, int] | None = None) -> None:
        self._ends = dict(ends or {})
        self.started: list[str] = []

    def start(self, name: str) -> bool:
        self.started.append(name)
        return True

    def names(self) -> list[str]:
        return [*OWN, *AIRFLOW_PROGRAMS]

    def processes(self) -> list[ProcessInfo]:
        return [
            ProcessInfo(name, "EXITED" if name in self._ends else "RUNNING", 1, 1, self._ends.get(name, 0))
            for name in self.started
        ]


class FakeAirflow:
    """Stands in for a healthy Airflow."""

    unpaused: list[str]

    def __init__(self, *_: object) -> None:
        type(self).unpaused = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def has_dag(self, _: str) -> bool:
        return True

    def make_pool(self, name: str, slots: int, _: str) -> None:
        assert (name, slots, self.unpaused) == (POOL, 2, []), "it is there before a task may run"

    def unpause(self, dag: str) -> None:
        self.unpaused.append(dag)


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    settings = PlatformSettings.load(run_dir=tmp_path, start_timeout_s=10, airflow="embedded")
    monkeypatch.setattr(module, "prepare_database", lambda *_: None)
    monkeypatch.setattr(module, "answers", lambda *_, **__: True)
    monkeypatch.setattr(module, "make_topics", lambda *_, **__: [])
    monkeypatch.setattr(module, "publish_lost_aliases", lambda *_: [])
    monkeypatch.setattr(module, "lost_topics", lambda *_: Losses({}, 3))
    monkeypatch.setattr(module, "desired_programs", lambda *_: {"shop": ("shop",), "views": ("views",)})
    monkeypatch.setattr(module, "AirflowClient", FakeAirflow)
    monkeypatch.setattr(module, "_POLL_S", 0)
    return Instance(settings, RunLayout(tmp_path), {})


def looks(monkeypatch: pytest.MonkeyPatch, ill: Callable[[int], Mapping[str, str]]) -> None:
    """Has the n-th look at the platform find `ill(n)`."""
    seen = SimpleNamespace(count=0)

    def look(_: object) -> Overview:
        seen.count += 1
        details = ill(seen.count)
        healthy = Process("", "RUNNING", healthy=True, pid=1, uptime_s=1, address=None, detail="")
        processes = [
            replace(healthy, name=name, healthy=name not in details, detail=details.get(name, ""))
            for name in (*OWN, *AIRFLOW_PROGRAMS)
        ]
        return Overview(0, processes=processes)

    monkeypatch.setattr(module, "collect_status", look)


def began(instance: Instance, supervisor: Any, *, accept_loss: bool = False) -> tuple[Trouble, ...]:
    return bring_up(instance, supervisor, lambda _: None, accept_loss=accept_loss)


def test_all_is_started_and_waited_for(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, lambda number: {"shop": "starting"} if number < 4 else {})
    supervisor = FakeSupervisor()
    assert began(instance, supervisor) == ()
    assert {*supervisor.started} == {*OWN, *AIRFLOW_PROGRAMS}
    assert FakeAirflow.unpaused == list(DAGS)


@pytest.mark.parametrize("airflow", ["none", "https://airflow.example.com"])
def test_without_an_airflow_of_its_own_nothing_of_one_is_touched(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, airflow: str
) -> None:
    monkeypatch.delattr(module, "prepare_database")
    monkeypatch.delattr(module, "AirflowClient")
    looks(monkeypatch, lambda _: {})
    supervisor = FakeSupervisor()
    settings = PlatformSettings.load(run_dir=instance.layout.root, airflow=airflow)
    assert began(replace(instance, settings=settings), supervisor) == ()
    assert {*supervisor.started} == {*OWN}


def test_what_a_person_has_stopped_stays_so(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    instance.layout.stopped.mkdir()
    (instance.layout.stopped / "views").touch()
    looks(monkeypatch, lambda _: {})
    supervisor, said = FakeSupervisor(), list[str]()
    assert bring_up(instance, supervisor, said.append) == ()  # type: ignore[arg-type]
    assert {*supervisor.started} == {*OWN, *AIRFLOW_PROGRAMS} - {"views"}
    assert "not started, as somebody has stopped them: views (`storekeeper app start`)" in said


def test_an_app_that_ends_for_good_is_told_at_once_and_the_rest_is_up(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {"node-b": "a changelog is lost: views-log was deleted"}
    looks(
        monkeypatch,
        lambda number: {"views": CAUSE, **lost, **({"node-a": "not ready: restoring"} if number < 3 else {})},
    )
    supervisor = FakeSupervisor(ends={"views": 78})
    of_node, trouble = began(instance, supervisor)
    assert str(trouble).startswith(f"views: {CAUSE} (its log: ")
    assert str(of_node).startswith("node-b: a changelog is lost: views-log was deleted (its log: "), "it never heals"
    assert {*supervisor.started} == {*OWN, *AIRFLOW_PROGRAMS}
    assert FakeAirflow.unpaused == list(DAGS)


def test_an_app_that_ends_between_two_looks_is_not_told_as_starting(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: dict[str, int] = {}
    supervisor = FakeSupervisor()
    supervisor._ends = ends

    def ill(_: int) -> Mapping[str, str]:
        seen = CAUSE if ends else "starting"
        ends["views"] = 78  # after this look, before the next question to the supervisor
        return {"views": seen}

    looks(monkeypatch, ill)
    (trouble,) = began(instance, supervisor)
    assert str(trouble).startswith(f"views: {CAUSE} (its log: ")


def test_what_takes_too_long_is_told_with_the_setting(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = dict.fromkeys(AIRFLOW_PROGRAMS, "unreachable")
    moments = iter(range(10_000))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(moments), sleep=time.sleep))
    looks(monkeypatch, lambda _: hung)
    FakeAirflow.unpaused = []
    troubles = began(instance, FakeSupervisor())
    assert [trouble.name for trouble in troubles] == list(AIRFLOW_PROGRAMS)
    assert troubles[0].why.startswith("unreachable after 10 s, the setting start_timeout_s")
    assert FakeAirflow.unpaused == [], "nobody asks an Airflow that doesn't work"


def test_an_airflow_without_a_database_leaves_apps_and_nodes_up(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StartError("no database")

    monkeypatch.setattr(module, "prepare_database", refuse)
    looks(monkeypatch, lambda _: dict.fromkeys(AIRFLOW_PROGRAMS, "stopped"))
    supervisor = FakeSupervisor()
    assert {trouble.why for trouble in began(instance, supervisor)} == {"no database"}
    assert {*supervisor.started} == {*OWN}


def test_an_app_whose_topics_are_lost_is_not_started_and_none_of_them_is_made(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    without: list[object] = []

    def made(*_: object, **named: object) -> list[str]:
        without.append(named["without"])
        return []

    monkeypatch.setattr(module, "make_topics", made)
    monkeypatch.setattr(module, "lost_topics", lambda *_: Losses({"views": {"views-log": "deleted"}}, 3))
    looks(monkeypatch, lambda _: {"views": "stopped"})
    supervisor = FakeSupervisor(ends={"views": 78})
    (trouble,) = began(instance, supervisor)
    assert str(trouble).startswith("views: can't start, as topics are lost that it began with: views-log (deleted).")
    assert {*supervisor.started} == {*OWN, *AIRFLOW_PROGRAMS} - {"views"}
    assert without == [{"views-log": "deleted"}]
    assert began(instance, supervisor, accept_loss=True)[0].why.startswith("stopped")
    assert "views" in supervisor.started


def test_a_broker_that_elects_its_leaders_is_waited_for(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | Losses] = [BrokerUnavailableError("no leader"), Losses({}, 3)]

    def looked(*_: object) -> Losses:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(module, "lost_topics", looked)
    looks(monkeypatch, lambda _: {})
    assert began(instance, FakeSupervisor()) == ()
    assert answers == []


def test_without_any_topic_that_apps_began_with_nothing_goes_on(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "lost_topics", lambda *_: Losses({"views": {"a": "deleted", "b": "deleted"}}, 2))
    supervisor = FakeSupervisor()
    with pytest.raises(LostTopicsError, match=r"^Kafka's data is lost: .* a \(deleted\), b \(deleted\)\. Nothing was"):
        began(instance, supervisor)
    assert supervisor.started == ["control", "kafka"]


def test_without_a_broker_nothing_goes_on(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "answers", lambda *_, **__: False)
    supervisor = FakeSupervisor(ends={"kafka": 78})
    with pytest.raises(StartError, match="kafka gave up"):
        began(instance, supervisor)
    assert supervisor.started == ["control", "kafka"]
