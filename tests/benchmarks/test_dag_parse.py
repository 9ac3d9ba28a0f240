"""The benchmark of parsing works; its figures are not asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DAGS = {path.stem for path in (PROJECT / "storekeeper_provider" / "dags").glob("*.py") if path.stem != "__init__"}


@pytest.mark.airflow
def test_every_dag_file_is_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.dag_parse", "--smoke"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert set(re.findall(r"^parse (\w+) +[\d.]+ ms$", done.stdout, re.MULTILINE)) == DAGS, done.stderr
