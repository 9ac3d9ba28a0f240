from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["storekeeper.engine.worker_daemon", "storekeeper.engine.driver.runner"])
def test_a_topology_s_processes_load_neither_arrow_nor_pandas(module: str) -> None:
    """Both are on the way from an app's start to its first batch."""
    check = f"import sys, {module}; sys.exit(', '.join(sys.modules.keys() & {{'pyarrow', 'pandas', 'delta'}}))"
    done = subprocess.run([sys.executable, "-c", check], check=False, capture_output=True, text=True)
    assert not done.stderr.strip()
