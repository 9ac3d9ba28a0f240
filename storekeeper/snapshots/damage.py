"""The errors for a table that differs from its snapshots, and opening tables with these errors."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location, reaching

_MOST_CHARS = 300


def damaged(path: Location, what: str) -> SnapshotDamagedError:
    """The error that says what is wrong with a table, and how to go on."""
    return SnapshotDamagedError(
        f"table {path.name} {what}. Go back to its last snapshot with `storekeeper snapshot restore {path.name}`. If "
        f"that can't be done, move {path} away, and write a new snapshot: `storekeeper snapshot create {path.name}`"
    )


def unreadable(path: Location, error: BaseException) -> SnapshotDamagedError:
    """The error for a table that its reader can't read, with the first line of the reader's message."""
    return damaged(path, f"can't be read: {str(error).partition(chr(10))[0][:_MOST_CHARS]}")


def open_table(path: Location, version: int | None = None) -> DeltaTable:
    """The table at a version, or the newest.

    Raises:
        SnapshotDamagedError: it can't be read.
        TablesUnreachableError: its store doesn't answer.
    """
    try:
        return delta_table(path, version)
    except (DeltaError, OSError) as error:
        raise unreadable(path, error) from error


def delta_table(path: Location, version: int | None = None) -> DeltaTable:
    """The table at a version, or the newest. It need not hold snapshots.

    Raises:
        DeltaError, OSError: it can't be read; `TableNotFoundError` if there is none.
        TablesUnreachableError: its store doesn't answer.
    """
    with reaching(path):
        return DeltaTable(str(path), version=version)
