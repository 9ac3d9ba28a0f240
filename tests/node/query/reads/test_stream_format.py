"""How streams are written, beyond what their readers see."""

from __future__ import annotations

import subprocess
import sys


def test_the_garbage_collector_passes_over_arrow_once_it_is_loaded() -> None:
    """In a process of its own: what another test loaded, or froze, must not count."""
    program = (
        "import gc\n"
        "from storekeeper.node.query.reads.stream_format import load_arrow\n"
        "before = len(gc.get_objects())\n"
        "load_arrow()\n"
        "print(len(gc.get_objects()) < before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
