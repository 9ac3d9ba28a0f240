from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", *arguments],
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
