from __future__ import annotations

import dataclasses
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import adjusted

ROOT = Path(__file__).resolve().parents[2]
_LIMITS = """\
from dataclasses import dataclass
MOST = 1
@dataclass
class Times:
    a_s: float = 1.0
    b_s: float = 2.0
"""
_CONSTANT = re.compile(r'"([a-z_.]+):([A-Za-z_]+)(?:\.([a-z_]+))?": ')


def named_constants() -> set[tuple[str, str, str]]:
    """Module, name and field of each constant that a test or the harness adjusts."""
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("harness/**/*.py")]
    return {place for path in files if path != Path(__file__) for place in _CONSTANT.findall(path.read_text())}


def test_a_program_runs_with_other_constants(tmp_path: Path) -> None:
    (tmp_path / "limits.py").write_text(_LIMITS)
    (tmp_path / "program.py").write_text("import limits, sys\nprint(limits.MOST, limits.Times(), sys.argv[1:])\n")
    changed = {"limits:MOST": 5} | {"limits:Times.b_s": 0.5}
    command = [sys.executable, *adjusted.command(changed, "program", ["--name", "a"])]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "5 Times(a_s=1.0, b_s=0.5) ['--name', 'a']\n"


@pytest.mark.parametrize("place", sorted(named_constants()), ids=":".join)
def test_what_is_adjusted_is_there(place: tuple[str, str, str]) -> None:
    module, name, field = place
    found = getattr(importlib.import_module(module), name)
    assert not field or field in {one.name for one in dataclasses.fields(found)}


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="NOTHING"):
        adjusted.adjust(["storekeeper.run_dir:NOTHING=1"])
