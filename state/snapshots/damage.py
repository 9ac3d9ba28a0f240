"""The errors for a table that differs from its snapshots, and opening tables with these errors."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from state.errors import SnapshotDamagedError

_MOST_CHARS = 300


def damaged(path: Path, what: str) -> SnapshotDamagedError:
    """The error that says what is wrong with a table, and how to go on."""
    return SnapshotDamagedError(
        f"table {path.name} {what}. Go back to its last snapshot with `storekeeper snapshot restore {path.name}`. If "
        f"that can't be done, move {path} away, and write a new snapshot: `storekeeper snapshot create {path.name}`"
    )


def unreadable(path: Path, error: BaseException) -> SnapshotDamagedError:
    """The error for a table that its reader can't read, with the first line of the reader's message."""
    return damaged(path, f"can't be read: {str(error).partition(chr(10))[0][:_MOST_CHARS]}")


def open_table(path: Path, version: int | None = None) -> DeltaTable:
    """The table at a version, or the newest.

    Raises:
        SnapshotDamagedError: it can't be read.
    """
    try:
        return DeltaTable(str(path), version=version)
    except (DeltaError, OSError) as error:
        raise unreadable(path, error) from error
