"""Stands for a command that runs as a job: `verify FILE [CODE]`.

It adds a line to FILE when it begins, and ends with CODE once `FILE.go` is there. It has a child in its process group,
whose pid is in `FILE.child`. With the argument `grumble` it takes TERM for no reason to end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(command: str, file: str, *more: str) -> int:
    """Does it."""
    if "grumble" in more:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(f"{file}.child").write_text(str(child.pid))
    sys.stderr.write(f"{command} begins\n")
    sys.stderr.flush()
    with Path(file).open("a") as began:
        began.write(f"{os.getpid()}\n")
    while not Path(f"{file}.go").exists():
        time.sleep(0.02)
    sys.stderr.write("storekeeper: it is done\n")
    sys.stdout.write('chatter\n{"rows": 3}\n')
    return int(more[0]) if more and more[0].isdigit() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
