"""When windowed aggregations emit results."""

from __future__ import annotations

from enum import StrEnum


class EmitStrategy(StrEnum):
    """On every update, or once, when the window closes.

    Emission on close reads closed windows from the store, so the store's retention must be at least the definition's
    `min_retention_ms`. It remembers in memory which windows are open, and bypasses caches.
    """

    ON_WINDOW_UPDATE = "update"
    ON_WINDOW_CLOSE = "close"
