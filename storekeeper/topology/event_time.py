"""Times of events, as functions of the user give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from storekeeper.errors import FutureTimestampError, InvalidTimestampError

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999. Readers can't show a later time, and leave the row out."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ms(time: Any) -> int:
    """A time as epoch milliseconds: a whole number of them, or a `datetime` with a time zone.

    Raises:
        InvalidTimestampError: it is something else, such as a float or None, or before 1970, or after the year 9999.
    """
    if isinstance(time, datetime) and time.tzinfo is not None:
        at_ms = (time - _EPOCH) // timedelta(milliseconds=1)
    else:
        at_ms = _whole(time)
    if not 0 <= at_ms <= LATEST_MS:
        raise out_of_range(at_ms)
    return at_ms


def out_of_range(time_ms: int) -> InvalidTimestampError:
    """The error of a time that is too early or too late."""
    if time_ms < 0:
        return InvalidTimestampError("its time is before 1970")
    if time_ms > LATEST_MS:
        return InvalidTimestampError("its time is after the year 9999: are these microseconds?")
    return FutureTimestampError(
        "its time is further ahead than the app's own topics take: see their message.timestamp.after.max.ms"
    )


def _whole(time: Any) -> int:
    # bool is an int, and the number of a month is a time only by mistake: of ints, only those that mean a number.
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        kind = "a datetime without time zone" if isinstance(time, datetime) else f"a {type(time).__name__}"
        msg = f"its time is {kind}: give whole epoch milliseconds, or a datetime with a time zone"
        raise InvalidTimestampError(msg)
    return index(time)
