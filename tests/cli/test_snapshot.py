from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.cli import snapshot
from storekeeper.errors import ConfigurationError
from storekeeper.generations.journal import JournalFile
from storekeeper.snapshots import job
from tests.generations.test_steps import handed_over


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", *arguments],
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_setting_is_named() -> None:
    done = run("snapshot", "create", "rewards", STOREKEEPER_GENERATION="zero")
    assert done.returncode == 78
    assert "STOREKEEPER_GENERATION" in done.stderr
    assert "Traceback" not in done.stderr


def test_stores_of_several_apps_have_no_batch_in_common(tmp_path: Path) -> None:
    done = run("snapshot", "create", "rewards", "prices", STOREKEEPER_RUN_DIR=str(tmp_path))
    assert done.returncode == 78
    assert "rewards and prices are stores of several apps" in done.stderr


def test_a_name_that_comes_twice_counts_once(tmp_path: Path) -> None:
    done = run("snapshot", "create", "rewards", "rewards", "prices", STOREKEEPER_RUN_DIR=str(tmp_path))
    assert "storekeeper: rewards and prices are stores of several apps" in done.stderr


def test_a_snapshot_knows_since_when_its_generation_is_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def noted(stores: Sequence[StoreSpec], settings: AppSettings, _clock: object, *, live_from: int, **_: bool) -> None:
        asked.append((stores[0].changelog_topic, settings.generation, live_from))
        raise ConfigurationError("noted")

    JournalFile(tmp_path, "pos").write(journal := handed_over())
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(job, "take_snapshots", noted)
    monkeypatch.setattr(snapshot, "begin_job", lambda: None)  # it is for a process of its own
    with pytest.raises(ConfigurationError, match="noted"):
        snapshot.create(["rewards"])
    assert asked == [("pos-rewards-changelog-g2", 2, journal.generation(2).live_from)]
