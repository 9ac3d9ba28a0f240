"""Times as people write them in options of commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from storekeeper.clock import SystemClock

TIMES = "epoch ms, ISO 8601, now, or -15m, -1h, -2d"
"""The forms, for an option's help."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d{1,9})([smhd])")


def is_ago(text: str) -> bool:
    """Whether it says how long ago a time is, such as `-15m`."""
    return _AGO.fullmatch(text) is not None


def parse_time(text: str, now_ms: int) -> int:
    """The epoch milliseconds that a text means. A time without a zone is UTC.

    Raises:
        ValueError: if it is not a time; the message is a sentence that names the forms.
    """
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) > 4:
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    try:
        at = datetime.fromisoformat(text)
        return max(0, (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time: write epoch milliseconds, 2026-01-31T18:00:00Z, now, or -15m, -1h, -2d"
        raise ValueError(msg) from error


def time_option(text: str | None, option: str, default: str) -> int:
    """The value of a time option.

    Raises:
        typer.BadParameter: if it is not a time.
    """
    try:
        return parse_time(default if text is None else text, SystemClock().now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
