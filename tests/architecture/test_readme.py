"""The README's code runs, and what it says of commands and memory holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.statements import measure
from storekeeper.apps.settings import AppSettings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 (our own documentation)
    assert capsys.readouterr().out == "[('alice', 159)]\n"


def test_the_workers_of_an_app_stay_below_what_is_stated() -> None:
    """90 MiB, the local stores, and 1 KiB for each record of a task's batch; a process a task."""
    assert (
        "below 90 MiB, this, and 1 KiB for each record" in (ROOT / "docs" / "explanation" / "delivery.md").read_text()
    )
    settings = json.loads((ROOT / "benchmarks" / "results" / "app.json").read_text())["settings"]
    records = int(settings["max_offsets_per_trigger"])
    stated_mib = settings["partitions"] * (90 + AppSettings().state_memory_mb) + records / 1024
    for keys in ("50,000", "5,000,000"):
        assert measure("app", f"Count and sum per key, {keys} keys: memory of all workers")["ours"] < stated_mib


def test_every_target_that_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^ +make (\w+)", README, flags=re.MULTILINE)) <= targets
