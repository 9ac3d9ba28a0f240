"""Fetches the jars of a pom into a folder: `python3 storekeeper/ops/jars/fetch.py spark .jars`.

`make setup` runs this file before any package is installed, so it needs the standard library only. `storekeeper jars`
calls the same function.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

POMS = ("spark", "broker")
"""The folders beside this file, each with a pom. Spark apps need `spark`, the platform's own broker `broker`."""


def fetch_jars(pom: str, folder: Path) -> None:
    """Copies the jars of `pom` into `folder/pom` with Maven. Jars that are there already stay.

    Two calls at once may spoil the local repository that Maven processes share.

    Raises:
        OSError: Maven can't be run, or the folder can't be written.
        subprocess.CalledProcessError: Maven failed; the reason is on standard error.
    """
    target = folder.resolve() / pom
    command = ["mvn", "-q", "-B", "-ntp", "-f", str(Path(__file__).parent / pom / "pom.xml"), "package"]
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, f"-Djars.dir={target}"], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    fetch_jars(sys.argv[1], Path(sys.argv[2]))
