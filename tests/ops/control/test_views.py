"""What the control API shows of generations: from files alone, without a process for each question."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock
from storekeeper.generations.catalog import facts_of, first_journal
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.status import generation_status
from storekeeper.generations.steps import planned
from storekeeper.ops.control.problems import UnknownAppError
from storekeeper.ops.control.views import PlatformViews
from storekeeper.ops.platform_apps import remember_apps
from storekeeper.ops.settings import PlatformSettings


@pytest.fixture
def views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlatformViews:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    remember_apps(tmp_path)
    return PlatformViews(PlatformSettings.load(run_dir=tmp_path))


def test_generations_are_those_of_the_command_and_need_no_process(views: PlatformViews, tmp_path: Path) -> None:
    settings = AppSettings.load(run_dir=tmp_path)
    command = facts_of(POS, settings), settings, ManualClock(0)
    assert views.generations("pos") == generation_status(*command)
    JournalFile(tmp_path, "pos").write(planned(first_journal(POS), POS, ("rewards-tier",)))
    shown = views.generations("pos")
    assert shown == generation_status(*command)
    assert (shown["live"], shown["candidate"], shown["generations"][1]["schema"]) == (1, 2, "rewards-tier")


def test_an_app_without_generations_is_refused_with_the_reason(views: PlatformViews) -> None:
    with pytest.raises(GenerationRefusedError, match="hadoop_export can't have generations: "):
        views.generations("hadoop_export")
    with pytest.raises(UnknownAppError, match="choose one of"):
        views.generations("nobody")
