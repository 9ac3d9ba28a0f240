"""Tables of tests without a store: folders in the run directory."""

from __future__ import annotations

from pathlib import Path

from storekeeper.apps.settings import AppSettings


def local_table(settings: AppSettings, name: str) -> Path:
    """The folder of a table."""
    found = settings.delta_table(name)
    assert isinstance(found, Path)
    return found
