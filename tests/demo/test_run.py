"""The demo's steps around the platform, without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo import run
from storekeeper.errors import ConfigurationError
from storekeeper.ops.errors import StartError


def test_a_demo_that_fails_says_so_in_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, ...]] = []

    def storekeeper(run_dir: Path, *arguments: str) -> None:
        called.append(arguments)
        if arguments[0] == "up":
            run_dir.mkdir()
            raise StartError("no jars")

    monkeypatch.setattr(run, "_storekeeper", storekeeper)
    report, folder = tmp_path / "report.json", tmp_path / "run"
    with pytest.raises(StartError):
        run.run_demo(folder, purchases=10, poison=0, report_path=report)
    fields = json.loads(report.read_text())
    assert (fields["verdict"], fields["error"]) == ("unfinished", "no jars")
    assert called == [("up",), ("down", "--quiet")], "whatever it started is stopped"


@pytest.mark.parametrize(("setting", "value"), [("kafka_bootstrap", "127.0.0.1:1"), ("durable_uri", "/somewhere/else")])
def test_a_demo_touches_nothing_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setenv(f"STOREKEEPER_{setting.upper()}", value)
    kept = tmp_path / "kept"
    kept.touch()
    with pytest.raises(ConfigurationError, match=f"unset {setting}"):
        run.run_demo(tmp_path, purchases=10, poison=0, report_path=tmp_path / "report.json")
    assert kept.exists()


def test_a_command_that_fails_ends_the_demo(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="`storekeeper no-such-command` ended with exit code 2"):
        run._storekeeper(tmp_path, "no-such-command")
