"""Airflow's generated configuration."""

from __future__ import annotations

import configparser
import os
import stat
from pathlib import Path

import pytest

from deploy.airflow_home import make_airflow_password, prune_task_logs, read_airflow_password, write_airflow_config
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings


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


def test_it_is_small_local_and_private(layout: RunLayout) -> None:
    config = _written(layout)
    assert config["api"]["host"] == "127.0.0.1"
    assert config["api"]["workers"] == "1"
    assert config["core"]["executor"] == "LocalExecutor"
    assert config["core"]["load_examples"] == "False"
    assert config["core"]["simple_auth_manager_users"] == "admin:admin"
    assert "simple_auth_manager_all_admins" not in config["core"]
    assert config["database"]["sql_alchemy_conn"] == f"sqlite:///{layout.airflow}/airflow.db"
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


def test_only_old_task_logs_are_removed(layout: RunLayout) -> None:
    runs = [layout.logs / "airflow" / "dag_id=watch_streams" / f"run_id={name}" for name in ("old", "new")]
    for run in runs:
        run.mkdir(parents=True)
    day_s = 86_400
    os.utime(runs[0], (10 * day_s, 10 * day_s))
    os.utime(runs[1], (12 * day_s, 12 * day_s))
    assert prune_task_logs(layout, now_s=18.0 * day_s) == 1
    assert [run.exists() for run in runs] == [False, True]
