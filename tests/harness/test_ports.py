from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.ports import free_ports

PROJECT = Path(__file__).parents[2]


def test_ports_are_given_once_and_never_those_of_another_process() -> None:
    given = free_ports(150)
    code = "from harness.ports import free_ports; print(*free_ports(399))"
    other = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert len(set(given)) == 150
    assert not set(given) & set(map(int, other.stdout.split()))
