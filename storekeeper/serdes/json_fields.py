"""The fields of a JSON object, with numbers as they are written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

_NOT_A_NUMBER = float("nan")


def json_fields(value: bytes) -> dict[str, Any]:
    """The fields by name; none if the value is not a JSON object. Numbers with a point or an exponent are `Decimal`."""
    try:
        content = _decode(value)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _exact_number(text: str) -> Decimal | float:
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent of more digits than there are atoms
        return _NOT_A_NUMBER


_decode = msgspec.json.Decoder(float_hook=_exact_number).decode
