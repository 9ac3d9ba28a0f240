"""Fields of a JSON value as the types of Feast, without Feast: the name of the type gives the field of its `Value`.

What a type can't hold exactly is refused and never rounded. Floats alone are the nearest number of their size, as they
are everywhere. Bytes are base64 text, and times are text in ISO 8601: a number would not say its unit.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from state.errors import SerializationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIST = "_LIST"
_MOST_DIGITS = 20


def is_served(kind: str) -> bool:
    """Whether features of a type of Feast, such as `INT64` or `STRING_LIST`, can be read from JSON values."""
    return kind.removesuffix(_LIST) in _SCALARS


def served_kinds() -> list[str]:
    """The types of single values, sorted; there are lists of each."""
    return sorted(_SCALARS)


def content(kind: str, found: Any) -> dict[str, Any]:
    """The arguments that make Feast's `Value`. None for a JSON null is a `Value` without content.

    Args:
        kind: the feature's type, which `is_served`.
        found: the JSON value, numbers with a fraction as `Decimal`.

    Raises:
        SerializationError: it isn't of that type, or the type can't hold it exactly.
    """
    if found is None:
        return {}
    try:
        if not kind.endswith(_LIST):
            return {f"{kind.lower()}_val": _SCALARS[kind](found)}
        convert = _SCALARS[kind.removesuffix(_LIST)]
        return {f"{kind.lower()}_val": {"val": [convert(each) for each in _of(list, found)]}}
    except (ValueError, TypeError, ArithmeticError):  # their texts may have parts of the value
        msg = f"a {type(found).__name__} is no {kind}, or has more digits than that can hold"
        raise SerializationError(msg) from None


def moment(found: Any) -> datetime:
    """The time of an event: whole epoch milliseconds, or text in ISO 8601, which is in UTC if it has no zone.

    Raises:
        SerializationError: it is neither.
    """
    try:
        if isinstance(found, str):
            return _iso(found)
        return _EPOCH + timedelta(milliseconds=_whole(64)(found))
    except (ValueError, TypeError, ArithmeticError):
        raise SerializationError("an event time is neither epoch milliseconds nor text in ISO 8601") from None


def _of(kind: type, found: Any) -> Any:
    if not isinstance(found, kind):
        raise TypeError(kind.__name__)
    return found


def _whole(bits: int) -> Callable[[Any], int]:
    bound = 1 << (bits - 1)

    def convert(found: Any) -> int:
        number = _number(found)
        if number.adjusted() > _MOST_DIGITS or number != (whole := int(number)) or not -bound <= whole < bound:
            raise ValueError(bits)
        return whole

    return convert


def _number(found: Any) -> Decimal:
    if isinstance(found, bool) or not isinstance(found, int | Decimal):
        raise TypeError("number")
    return Decimal(found)


def _double(found: Any) -> float:
    number = float(_number(found))
    if not math.isfinite(number):
        raise OverflowError
    return number


def _float(found: Any) -> float:
    (number,) = struct.unpack("<f", struct.pack("<f", _double(found)))
    return float(number)


def _iso(text: Any) -> datetime:
    at = datetime.fromisoformat(_of(str, text))
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _seconds(found: Any) -> int:
    since = _iso(found) - _EPOCH
    if since.microseconds:
        raise ValueError("fraction of a second")
    return since.days * 86_400 + since.seconds


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "BOOL": lambda found: _of(bool, found),
    "BYTES": lambda found: base64.b64decode(_of(str, found), validate=True),
    "DECIMAL": lambda found: str(_number(found)),
    "DOUBLE": _double,
    "FLOAT": _float,
    "INT32": _whole(32),
    "INT64": _whole(64),
    "STRING": lambda found: _of(str, found),
    "TIME_UUID": lambda found: str(UUID(_of(str, found))),
    "UNIX_TIMESTAMP": _seconds,
    "UUID": lambda found: str(UUID(_of(str, found))),
}
