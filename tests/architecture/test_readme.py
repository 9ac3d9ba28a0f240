"""The README's code runs, and its figures are the measured ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def measured(benchmark: str, measure: str) -> dict[str, Any]:
    """One measure of a result file."""
    results = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text())
    found: dict[str, Any] = next(m for m in results["measures"] if m["measure"] == measure)
    return found


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 (our own documentation)
    assert capsys.readouterr().out == "[('alice', '139.46')]\n"


@pytest.mark.parametrize(
    ("sentence", "benchmark", "measure", "figure"),
    [
        ("{:.2f} times the records per second of Kafka Streams", "restore", "restore", "ratio"),
        ("cost {:.1f} times a raw RocksDB get", "wrappers", "get: all", "ratio"),
        ("and {:.1f} times in batches of 1,000", "wrappers", "get_many of 1,000: all", "ratio"),
        ("{:.0f} MiB resident at most", "memory", "resident while reading and writing, peak", "ours"),
    ],
)
def test_a_figure_is_the_measured_one(sentence: str, benchmark: str, measure: str, figure: str) -> None:
    assert sentence.format(measured(benchmark, measure)[figure]) in " ".join(README.split())


def test_every_command_that_it_names_exists() -> None:
    from deploy.cli import app

    commands = {c.name or getattr(c.callback, "__name__", "") for c in app.registered_commands}
    named = set(re.findall(r"^ +storekeeper (\w+)", README, flags=re.MULTILINE))
    assert named
    assert named <= commands
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^ +make (\w+)", README, flags=re.MULTILINE)) <= targets
