"""The files of a Delta table's log: whether there is a table, and its commits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from storekeeper.locations import Location

_COMMIT_FILE = re.compile(r"\d{20}\.json")


def is_table(path: Location) -> bool:
    """Whether there is a Delta log."""
    return any(commit_files(path))


def commit_files(path: Location) -> Iterator[Location]:
    """The files of the commits, in no order."""
    log = path / "_delta_log"
    files = log.iterdir() if log.is_dir() else ()
    return (file for file in files if _COMMIT_FILE.fullmatch(file.name))
