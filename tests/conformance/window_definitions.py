"""The window definitions that case files name."""

from __future__ import annotations

from typing import Any

from storekeeper.topology.windows import (
    SessionWindow,
    SessionWindows,
    SlidingWindows,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
)
from tests.conformance.adapter import UnsupportedCaseError

Definition = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows
BOUNDED: dict[str, type[Window]] = {
    "time": TimeWindow,
    "tumbling": TimeWindow,
    "hopping": TimeWindow,
    "sliding": TimeWindow,
    "session": SessionWindow,
    "unlimited": UnlimitedWindow,
}
LONGEST_MS = 1 << 62


def window_definition(config: dict[str, Any]) -> Definition:
    """The definition that a case's `window` describes."""
    kind = config.get("type", "tumbling")
    grace_ms = config.get("grace", 0)
    if kind == "unlimited":
        return UnlimitedWindows(config.get("start", 0))
    if kind == "session":
        return SessionWindows(config["gap"], grace_ms)
    size_ms: int = config["size"] if "size" in config else config["time_difference"]
    if kind == "sliding":
        return SlidingWindows(size_ms, grace_ms)
    if kind in {"tumbling", "hopping", "time"}:
        return TimeWindows(size_ms, config.get("advance", size_ms), grace_ms)
    msg = f"unknown window type {kind}"
    raise UnsupportedCaseError(msg)


def bounded_window(kind: str, bounds: list[int]) -> Window:
    """One window of a kind."""
    return BOUNDED[kind](*bounds)


def checked_window(config: dict[str, Any]) -> None:
    """Builds what a case's `invalid_window` or `valid_window` describes: one window, or a definition."""
    config = config.get("window", config)
    if "end" in config:
        bounded_window(config.get("type", "time"), [config["start"], config["end"]])
    else:
        window_definition(config)


def retention_ms(config: dict[str, Any], definition: Definition) -> int:
    """The retention of a case, or one that forgets nothing."""
    if isinstance(definition, UnlimitedWindows):
        return LONGEST_MS
    return max(config.get("retention", LONGEST_MS), definition.min_retention_ms)
