"""Times as people write them in options of commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from storekeeper.clock import DATE_DIGITS, SystemClock

TIMES = "epoch ms, ISO 8601, now, or -15m, -1h, -2d"
"""The forms, for an option's help."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG = re.compile(r"(\d{1,9})([smhd])")


def is_ago(text: str) -> bool:
    """Whether it says how long ago a time is, such as `-15m`."""
    return text.startswith("-") and _LONG.fullmatch(text[1:]) is not None


def parse_time(text: str, now_ms: int) -> int:
    """The epoch milliseconds that a text means. A time without a zone is UTC.

    Raises:
        ValueError: if it is not a time; the message is a sentence that names the forms.
    """
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) > 4 and len(text) != DATE_DIGITS:
        return int(text)
    if is_ago(text):
        return max(0, now_ms - parse_duration(text[1:]))
    try:
        if text.isdigit():
            raise ValueError("as milliseconds it is of 1970, as ISO 8601 a day or none")
        at = datetime.fromisoformat(text)
        return max(0, (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time: write epoch milliseconds, 2026-01-31T18:00:00Z, now, or -15m, -1h, -2d"
        raise ValueError(msg) from error


def parse_duration(text: str) -> int:
    """The milliseconds that a text such as `30m` means.

    Raises:
        ValueError: it is not a duration; the message is a sentence that names the forms.
    """
    long = _LONG.fullmatch(text)
    if long is None:
        raise ValueError(f"{text!r} is not a duration: write 90s, 30m, 1h or 2d")
    return int(long[1]) * _UNIT_MS[long[2]]


def duration_option(text: str, option: str) -> int:
    """The value of an option that is a duration.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def time_option(text: str | None, option: str, default: str) -> int:
    """The value of a time option.

    Raises:
        typer.BadParameter: if it is not a time.
    """
    try:
        return parse_time(default if text is None else text, SystemClock().now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
