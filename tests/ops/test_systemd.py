"""The unit of systemd: its command, and what it must have in common with supervisor's programs."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.project import ROOT
from storekeeper.program import NO_RESTART
from tests.ops.test_documents import wrong_in

UNIT = ROOT / "storekeeper" / "ops" / "systemd" / "storekeeper.service"


def test_it_keeps_the_platform_and_lets_apps_finish_their_batches() -> None:
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(UNIT.read_text("utf-8"))
    options = dict(parsed["Service"])
    program, *arguments = options["ExecStart"].split()
    assert Path(program).name == "storekeeper"
    assert wrong_in(["storekeeper", *arguments]) is None
    assert options["Restart"] == "on-failure"
    assert {int(code) for code in options["RestartPreventExitStatus"].split()} == NO_RESTART
    assert (options["UMask"], options["KillMode"]) == ("0077", "mixed")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/storekeeper/bin/storekeeper", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
