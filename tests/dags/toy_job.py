"""A job that does what its arguments say: log lines, a child that outlives it unless its group is ended, a result."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def main(mode: str, *arguments: str) -> int:
    """Does what `mode` says."""
    sys.stderr.write("a line of the log\n")
    if mode == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        draft = Path(arguments[0] + ".new")
        draft.write_text(str(child.pid))
        draft.replace(arguments[0])
        time.sleep(600)
    sys.stderr.write("storekeeper: Two lines\nstorekeeper: of a reason.\n" * (arguments[0] in {"5", "78"}))
    sys.stdout.write(f"chatter\n{arguments[1]}\n")
    return int(arguments[0])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
