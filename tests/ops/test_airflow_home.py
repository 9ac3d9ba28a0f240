"""Airflow's generated configuration."""

from __future__ import annotations

import asyncio
import configparser
import importlib
import os
import shutil
import sqlite3
import stat
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from harness.project import ROOT
from harness.waiting import eventually
from storekeeper.ops.airflow_home import (
    make_airflow_password,
    read_airflow_password,
    remove_old_logs,
    remove_old_runs,
    write_airflow_config,
)
from storekeeper.ops.environment import child_environment, inherited_environment
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings

DAY_S = 86_400


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = RunLayout(tmp_path / "run % 1")
    layout.make()
    return layout


def _written(layout: RunLayout) -> configparser.ConfigParser:
    write_airflow_config(layout, PlatformSettings.load(run_dir=layout.root))
    config = configparser.ConfigParser()
    config.read(layout.airflow / "airflow.cfg")
    return config


def test_its_folder_is_made_with_its_files_alone(layout: RunLayout) -> None:
    assert not layout.airflow.exists(), "a platform without Airflow has none"
    _written(layout)
    assert layout.airflow.stat().st_mode & 0o777 == 0o700


def test_it_is_small_local_and_private(layout: RunLayout) -> None:
    config = _written(layout)
    assert config["api"]["host"] == "127.0.0.1"
    assert config["api"]["workers"] == "1"
    assert config["core"]["executor"] == "LocalExecutor"
    assert config["core"]["load_examples"] == "False"
    assert config["core"]["simple_auth_manager_users"] == "admin:admin"
    assert "simple_auth_manager_all_admins" not in config["core"]
    assert config["database"]["sql_alchemy_conn"] == f"sqlite:///{layout.airflow}/airflow.db"
    for args in ("sql_alchemy_connect_args", "sql_alchemy_connect_args_async"):
        module, _, name = config["database"][args].rpartition(".")
        assert getattr(importlib.import_module(module), name)["timeout"] > 5, "a busy database is waited for"
    assert stat.S_IMODE((layout.airflow / "airflow.cfg").stat().st_mode) == 0o600


def test_secrets_are_generated_once_and_differ(layout: RunLayout) -> None:
    first, second = _written(layout), _written(layout)
    secrets = [config[s][k] for config in (first, second) for s, k in _SECRETS]
    assert secrets[:3] == secrets[3:]
    assert len(set(secrets)) == 3
    assert all(len(secret) == 44 for secret in secrets)


_SECRETS = (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"))


def test_the_password_is_generated_once_into_a_private_file(layout: RunLayout) -> None:
    assert read_airflow_password(layout) is None
    password, is_new = make_airflow_password(layout)
    assert is_new
    assert make_airflow_password(layout) == (password, False)
    assert stat.S_IMODE(layout.airflow_passwords.stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.secrets.stat().st_mode) == 0o700


def test_only_old_logs_are_removed(layout: RunLayout) -> None:
    logs = layout.logs / "airflow"
    old = [logs / "dag_id=check_stores" / "run_id=old", logs / "dag_processor" / "2026-01-01"]
    new = [logs / "dag_id=check_stores" / "run_id=new", logs / "dag_processor" / "2026-01-02"]
    for days, folders in ((10, old), (12, new)):
        for folder in folders:
            folder.mkdir(parents=True)
            os.utime(folder, (days * DAY_S, days * DAY_S))
    (logs / "dag_processor" / "latest").symlink_to("2026-01-02")
    assert remove_old_logs(layout, now_ms=21 * DAY_S * 1000) == 2
    assert [folder.exists() for folder in (*old, *new)] == [False, False, True, True]


_RUN = """
    INSERT INTO dag_run (dag_id, run_id, run_type, state, start_date, run_after, logical_date)
    VALUES ('check_stores', :name, :kind, 'success', :at, :at, :at)
"""
_TASK = """
    INSERT INTO task_instance (id, dag_id, task_id, run_id, state, start_date, try_number, pool, pool_slots)
    VALUES (:name, 'check_stores', 'watch', :name, 'success', :at, 1, 'default_pool', 1)
"""
_XCOM = """
    INSERT INTO xcom (dag_run_id, dag_id, task_id, run_id, "key", timestamp)
    SELECT id, dag_id, 'watch', run_id, 'return_value', start_date FROM dag_run
"""
_OLD_TRIGGER = "INSERT INTO trigger (classpath, kwargs, created_date) VALUES ('a.b', '{}', '2000-01-01')"
_OLD_DAG = """
    INSERT INTO dag (dag_id, is_paused, is_stale, last_parsed_time, bundle_name, timetable_type, partition_mapper_info,
                     max_active_tasks, max_consecutive_failed_dag_runs, has_task_concurrency_limits)
    VALUES ('check_stores', 1, 0, '2000-01-01', 'dags-folder', '', '{}', 1, 0, 0)
"""


IMPATIENT = {"timeout": 1}
"""What Airflow's processes wait at most for a database that another one writes to, here."""


@pytest.mark.airflow
def test_old_runs_are_removed_from_a_database_that_is_in_use(layout: RunLayout, airflow_database: Path) -> None:
    settings = PlatformSettings.load(run_dir=layout.root)
    environment = child_environment(settings, inherited_environment())
    write_airflow_config(layout, settings)
    layout.started_with.touch()
    shutil.copy(airflow_database, layout.airflow)
    now = datetime.now(UTC)

    def removed(**variables: str) -> str | None:
        return asyncio.run(remove_old_runs(layout, environment | variables, int(now.timestamp() * 1000)))

    with closing(sqlite3.connect(layout.airflow / "airflow.db", timeout=60, isolation_level=None)) as airflow:

        def found(query: str) -> list[str]:
            return [name for (name,) in airflow.execute(query)]

        def runs() -> list[str]:
            return found("SELECT run_id FROM dag_run ORDER BY start_date")

        airflow.execute("INSERT INTO dag_bundle (name) VALUES ('dags-folder')")
        airflow.execute(_OLD_DAG)
        airflow.execute(_OLD_TRIGGER)
        ages = {"old": 12, "manual": 11, "newest": 10.5, "long": 9}
        rows = [
            {
                "name": name,
                "kind": "scheduled" if name in {"old", "newest"} else "manual",
                "at": str((now - timedelta(days=days)).replace(tzinfo=None)),
            }
            for name, days in ages.items()
        ]
        airflow.executemany(_RUN, rows)

        airflow.execute("BEGIN IMMEDIATE")
        impatient = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": f"{__name__}.IMPATIENT", "PYTHONPATH": str(ROOT)}
        assert "did not clean" in (removed(**impatient) or "")
        airflow.execute("COMMIT")
        assert runs() == list(ages)

        airflow.executemany(_TASK, rows)
        airflow.executemany("INSERT INTO log (dttm, event, run_id) VALUES (:at, 'success', :name)", rows)
        airflow.execute(_XCOM)
        assert removed() is None
        assert runs() == ["newest", "long"]
        assert found("SELECT run_id FROM task_instance") == ["long"]
        assert found("SELECT run_id FROM xcom") == ["long"]
        assert found("SELECT run_id FROM log WHERE run_id IS NOT NULL") == ["long"]
        assert found("SELECT dag_id FROM dag") == ["check_stores"]
        assert found("SELECT classpath FROM trigger") == ["a.b"]
        assert found("SELECT name FROM sqlite_master WHERE name LIKE '%deleted%'") == []


def test_a_removal_ends_with_whoever_waits_for_it(layout: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, program = layout.root / "pid", layout.root / "slow"
    program.write_text(f"#!/bin/sh\necho $$ > '{begun}.new'\nmv '{begun}.new' '{begun}'\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr("storekeeper.ops.airflow_home.AIRFLOW_COMMAND", (str(program),))

    async def cancelled() -> None:
        task = asyncio.create_task(remove_old_runs(layout, inherited_environment(), 0))
        await asyncio.to_thread(eventually, begun.exists, 30, "it begins")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not psutil.pid_exists(int(begun.read_text()))
