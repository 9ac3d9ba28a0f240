"""The trigger of a staged table against a real control API and real tables; the event loop is the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from storekeeper_provider import staged_rows
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.staged_rows import StagedRowsTrigger, is_due, staged_table
from tests.ops.control.toys import ControlProcess
from tests.staged_lines import line, stage

pytestmark = pytest.mark.airflow


class AssetState:
    """The state of an asset, as Airflow's triggerer offers it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


class Asked:
    """A trigger whose pauses are counted, and whose events are read one by one."""

    def __init__(self, state: AssetState, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trigger = StagedRowsTrigger(
            table="hadoop_export", ask_every_s=900, storekeeper_conn_id="storekeeper_default"
        )
        self.trigger.asset_state_store = state
        self._monkeypatch = monkeypatch

    def events_of(self, asks: int) -> list[dict[str, Any]]:
        """The events of that many looks."""
        found: list[dict[str, Any]] = []
        sleeps: list[float] = []

        async def sleep(pause_s: float) -> None:
            sleeps.append(pause_s)
            if len(sleeps) == asks:
                raise asyncio.CancelledError

        async def run() -> None:
            async for event in self.trigger.run():
                found.append(event.payload)  # noqa: PERF401 (the loop ends by cancellation)

        with self._monkeypatch.context() as patched:
            # For the trigger alone: other threads of this process have event loops, whose pauses are none of its.
            patched.setattr(staged_rows, "asyncio", SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread))
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(run())
        assert sleeps == [900] * asks
        return found


@pytest.fixture
def archive(control: ControlProcess) -> Iterator[VerdictArchive]:
    """The verdicts on the table of the run directory, none at first."""
    settings = QualitySettings(run_dir=control.run_dir)  # type: ignore[call-arg]
    found = VerdictArchive(settings.verdict_dir("hadoop_export"))
    yield found
    found.forget()


def verdict(first: int, last: int) -> Verdict:
    return Verdict("hadoop_export", Status.QUARANTINED, first, last, rows=1, decided_at_ms=0)


@pytest.mark.usefixtures("connection")
def test_a_version_fires_once_and_what_follows_waits_for_the_decision_on_it(
    control: ControlProcess, archive: VerdictArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = QualitySettings(run_dir=control.run_dir)  # type: ignore[call-arg]
    state = AssetState()
    asked = Asked(state, monkeypatch)
    assert asked.events_of(2) == [], "there is no table yet"
    stage(settings, line(0), line(1))
    assert asked.events_of(3) == [{"table": "hadoop_export", "first_version": 0, "last_version": 0, "rows": 2}]
    stage(settings, line(2))
    assert asked.events_of(2) == [], "a check is on its way"
    assert Asked(state, monkeypatch).events_of(2) == [], "another triggerer has taken over"
    archive.put(verdict(0, 0))
    assert asked.events_of(2) == [{"table": "hadoop_export", "first_version": 1, "last_version": 1, "rows": 1}]
    archive.put(verdict(1, 1))
    assert asked.events_of(2) == [], "all is decided, and a quarantined batch isn't new"


@pytest.mark.usefixtures("no_connection")
def test_a_platform_that_is_away_is_logged_once(
    control: ControlProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(AssetState(), monkeypatch)
    assert asked.events_of(5) == []
    assert capsys.readouterr().out.count("can't tell whether table hadoop_export has unchecked rows") == 1
    monkeypatch.setattr(StorekeeperHook, "table", lambda _, name: {"table": name, "waiting": None})
    assert asked.events_of(2) == []
    assert capsys.readouterr().out.count("the platform answers again about table hadoop_export") == 1


@pytest.mark.parametrize(
    ("waiting", "fired", "due"),
    [
        ((0, 0, 1), None, True),
        ((3, 7, 20), 2, True),
        ((3, 7, 20), 3, False),
        ((3, 7, 20), 7, False),
        ((3, 7, None), 2, True),
        ((3, 7, 0), 2, False),
        ((0, 1, 5), 9, True),
    ],
)
def test_when_staged_versions_are_an_event(waiting: tuple[Any, Any, Any], fired: int | None, due: bool) -> None:
    named = dict(zip(("first_version", "last_version", "rows"), waiting, strict=True))
    assert is_due(named, fired) is due


def test_an_asset_names_the_staged_table_and_who_watches_it() -> None:
    asset = staged_table("hadoop_export", ask_every=timedelta(minutes=2))
    assert isinstance(asset, Asset)
    assert (asset.name, asset.uri) == ("delta_hadoop_export_staged", "delta://storekeeper/hadoop_export_staged")
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "storekeeper_provider.staged_rows.StagedRowsTrigger"
    assert arguments == {"table": "hadoop_export", "ask_every_s": 120, "storekeeper_conn_id": "storekeeper_default"}
    assert StagedRowsTrigger(**arguments).serialize() == (path, arguments)
