from __future__ import annotations

from pathlib import Path

import pytest

from harness.project_apps import SYSTEM_APPS, TILL_APPS
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.registry import DRIVERS
from storekeeper.apps.settings import AppSettings
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.steps import planned, retired, started
from storekeeper.locations import RemoteFolder, unreachable
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.programs import desired_programs, stopped_programs


def test_what_must_run_is_told_by_the_supervisor_and_the_journals(tmp_path: Path) -> None:
    settings = AppSettings.load(run_dir=tmp_path)
    assert list(desired_programs((*TILL_APPS, "shared_driver"), settings, DRIVERS)) == [*TILL_APPS, "shared_driver"]
    assert list(desired_programs(("pos",), settings, DRIVERS)) == ["pos"], "a platform that runs one app alone"
    assert desired_programs(("shared_driver",), settings, DRIVERS)["shared_driver"] == tuple(SYSTEM_APPS)
    JournalFile(tmp_path, "ticks").write(started(planned(first_journal(TICKS), TICKS, ()), 2))
    assert desired_programs(("shared_driver",), settings, DRIVERS)["ticks-next"] == ("ticks-next",)
    file, journal = JournalFile(tmp_path, "pos"), planned(first_journal(POS), POS, ())
    file.write(journal)
    assert "pos-next" not in desired_programs(TILL_APPS, settings, DRIVERS), "it has no seed yet"
    file.write(started(journal, 2))
    assert desired_programs(TILL_APPS, settings, DRIVERS)["pos-next"] == ("pos-next",)
    file.write(retired(started(journal, 2), 2))
    assert "pos-next" not in desired_programs((), settings, DRIVERS)
    file.write(started(journal, 2))
    fixed = AppSettings.load(run_dir=tmp_path, generation=3)
    assert list(desired_programs(TILL_APPS, fixed, DRIVERS)) == list(TILL_APPS), "what is left of a change doesn't run"


def test_apps_run_while_no_journal_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: JournalFile) -> None:
        raise unreachable(RemoteFolder("s3://shop/durable"), "nobody listens")

    monkeypatch.setattr(JournalFile, "read", away)
    assert list(desired_programs(TILL_APPS, AppSettings.load(durable_uri="s3://shop/durable"), DRIVERS)) == list(
        TILL_APPS
    )


def test_what_a_person_has_stopped_is_a_file_each(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    assert stopped_programs(layout) == frozenset()
    layout.stopped.mkdir()
    (layout.stopped / "pos").touch()
    assert stopped_programs(layout) == {"pos"}
