"""Runs a command as on a machine without the optional packages: `python -m tests.bare_path COMMAND…`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONAL = {
    "redis-server": {"redis-server", "redis-cli"},
    "chromium": {"chromium"},
    "prometheus": {"prometheus", "promtool"},
    "systemd": {"systemd-analyze"},
    "postgresql": {"psql", "postgres", "initdb", "pg_ctl"},
}
"""The programs that tests look for, by Debian's name of the package."""


def bare_path(path: str, folder: Path) -> str:
    """A PATH without the optional programs. A place that has some is replaced by links to its other programs."""
    hidden = set().union(*OPTIONAL.values())
    bare: list[str] = []
    places = dict.fromkeys(Path(place).resolve() for place in path.split(os.pathsep))
    for number, place in enumerate(places):
        programs = list(place.iterdir()) if place.is_dir() else []
        if hidden.isdisjoint(program.name for program in programs):
            bare.append(str(place))
            continue
        links = folder / str(number)
        links.mkdir()
        for program in programs:
            if program.name not in hidden:
                (links / program.name).symlink_to(program)
        bare.append(str(links))
    return os.pathsep.join(bare)


def main(command: list[str]) -> int:
    """Runs the command and returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="bare-path-") as folder:
        environment = dict(os.environ)  # noqa: TID251 (the child's, with another PATH)
        environment["PATH"] = bare_path(environment["PATH"], Path(folder))
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
