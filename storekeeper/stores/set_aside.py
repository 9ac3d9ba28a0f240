"""Moves a damaged store out of the way. It is never deleted, so that it can be examined."""

from __future__ import annotations

from pathlib import Path

from storekeeper.clock import Clock, SystemClock


def set_aside(path: str | Path, *, clock: Clock | None = None) -> Path:
    """Renames a closed store's directory to `<name>.corrupt-<epoch ms>` and returns the new path.

    The next open at `path` starts an empty store, to be restored from the changelog.

    Raises:
        FileNotFoundError: there is nothing at `path`.
    """
    source = Path(path)
    stamp_ms = (clock or SystemClock()).now_ms()
    target = source.with_name(f"{source.name}.corrupt-{stamp_ms}")
    while target.exists():
        stamp_ms += 1
        target = source.with_name(f"{source.name}.corrupt-{stamp_ms}")
    return source.rename(target)
