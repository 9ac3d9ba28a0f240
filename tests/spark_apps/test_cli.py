from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_apps.cli import exit_code
from spark_apps.errors import AppRunningError, UnusableCheckpointError
from state.changelog.errors import BrokerUnavailableError
from state.errors import ChangelogError, ConfigurationError, StateError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 78),
        (UnusableCheckpointError("x"), 78),
        (BrokerUnavailableError("x"), 75),
        (AppRunningError("x"), 75),
        (ChangelogError("x"), 1),
        (StateError("x"), 1),
    ],
)
def test_the_exit_code_says_whether_a_restart_helps(error: StateError, code: int) -> None:
    assert exit_code(error) == code


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_apps", *arguments],
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unknown_app_is_one_sentence() -> None:
    done = run("run", "nope")
    assert done.returncode == 78
    assert done.stdout == ""
    assert "there is no app 'nope': choose one of pos, hadoop_export" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named() -> None:
    done = run("snapshot", "rewards", STOREKEEPER_GENERATION="zero")
    assert done.returncode == 78
    assert "STOREKEEPER_GENERATION" in done.stderr
    assert "Traceback" not in done.stderr


def test_stores_of_several_apps_have_no_batch_in_common(tmp_path: Path) -> None:
    done = run("snapshot", "rewards", "prices", STOREKEEPER_RUN_DIR=str(tmp_path))
    assert done.returncode == 78
    assert "rewards and prices are stores of several apps" in done.stderr
