from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.generations.catalog import known_migrations
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.running_code import check_known

BEAT = Heartbeat("pos", 1, os.getpid(), AppState.RUNNING, 1_000, 2_000, migrations=["rewards-tier"])


def told(run_dir: Path, beat: Heartbeat) -> AppSettings:
    settings = AppSettings(run_dir=run_dir)
    write_heartbeat(settings.heartbeat_file("pos"), beat)
    return settings


def test_an_app_tells_the_migrations_of_its_stores() -> None:
    assert set(known_migrations(POS)) >= {"rewards-tier", "rewards-by-region"}


def test_a_change_that_the_running_process_does_not_know_is_refused(tmp_path: Path) -> None:
    settings = told(tmp_path, BEAT)
    check_known("pos", ["rewards-tier", "my.changes:OTHER"], settings)
    with pytest.raises(GenerationRefusedError, match=r"doesn't know migration rewards-by-region.*action upgrade"):
        check_known("pos", ["rewards-tier", "rewards-by-region"], settings)


@pytest.mark.parametrize("beat", [replace(BEAT, state=AppState.STOPPED), replace(BEAT, migrations=None)])
def test_one_that_does_not_run_or_say_is_taken_to_know(tmp_path: Path, beat: Heartbeat) -> None:
    check_known("pos", ["rewards-by-region"], told(tmp_path, beat))
    check_known("ticks", ["any"], AppSettings(run_dir=tmp_path))
