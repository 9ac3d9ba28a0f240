"""RocksDB's errors are plain exceptions with a message: here the message is translated into an error of our tree."""

from __future__ import annotations

from state.errors import DiskFullError, StateError, StorageError, StoreClosedError, StoreCorruptedError

_DISK_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_CORRUPTED = ("Corruption", "No such file or directory", "checksum mismatch", "Column family not found")


def translated(error: BaseException, path: str) -> StateError:
    """The error of our tree for what rocksdict raised about the store at `path`."""
    text = str(error)
    if type(error).__name__ == "DbClosedError":
        return StoreClosedError(f"the store at {path} is closed; open it again first")
    if any(sign in text for sign in _DISK_FULL):
        return DiskFullError(f"no space left for the store at {path}; free some, then write again: {text}")
    if any(sign in text for sign in _CORRUPTED):
        return StoreCorruptedError(f"the store at {path} is damaged; set it aside and restore it: {text}")
    if "lock hold by" in text or "While lock file" in text:
        return StorageError(f"the store at {path} is open elsewhere; one process at a time may open it: {text}")
    return StorageError(f"the store at {path} failed: {text}")
