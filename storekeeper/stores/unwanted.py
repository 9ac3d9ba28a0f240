"""Local stores that must go with all of their files, although another process may have them open now.

A mark beside the folder says so. Who opens the store next deletes the folder first, and restores its rows.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def mark_unwanted(folder: Path) -> None:
    """Has the folder deleted before it is opened again."""
    _mark(folder).touch(mode=0o600)


def is_unwanted(folder: Path) -> bool:
    """Whether the folder is to be deleted."""
    return _mark(folder).exists()


def remove_unwanted(folder: Path) -> None:
    """Deletes the folder if it is marked. Call it while nobody has the store open. A crash leaves the mark."""
    if is_unwanted(folder):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        _mark(folder).unlink(missing_ok=True)


def _mark(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unwanted")
