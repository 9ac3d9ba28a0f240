"""The example units of systemd: their commands, and what they must have in common with supervisor's programs."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.project import ROOT
from storekeeper.program import NO_RESTART
from tests.ops.test_documents import wrong_in

UNITS = sorted((ROOT / "storekeeper" / "ops" / "systemd").glob("*.service"))


def service(unit: Path) -> dict[str, str]:
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(unit.read_text("utf-8"))
    return dict(parsed["Service"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_a_command_that_there_is_and_restarts_it_as_supervisor_does(unit: Path) -> None:
    options = service(unit)
    program, *arguments = options["ExecStart"].split()
    assert Path(program).name == "storekeeper"
    assert wrong_in(["storekeeper", *arguments]) is None
    assert options["Restart"] == "on-failure"
    assert {int(code) for code in options["RestartPreventExitStatus"].split()} == NO_RESTART
    assert options["UMask"] == "0077"


def test_a_stop_lets_apps_finish_their_batch_and_jobs_go_on() -> None:
    kill_modes = {unit.stem: service(unit).get("KillMode") for unit in UNITS}
    assert kill_modes == {
        "storekeeper-control": "process",
        "storekeeper-generation@": "mixed",
        "storekeeper-node@": None,
        "storekeeper-run@": "mixed",
    }


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("instance", ["pos", "till-team.points"])
def test_systemd_takes_the_units(tmp_path: Path, instance: str) -> None:
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("/opt/storekeeper/bin/storekeeper", "/bin/true")
        name = unit.name.replace("@.", f"@{instance}.")
        (tmp_path / name).write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        complaints = [line for line in done.stderr.splitlines() if name in line]
        assert complaints == []
