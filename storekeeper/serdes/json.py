"""JSON documents of any shape, and the fields of an object."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from storekeeper.errors import SerializationError
from storekeeper.serdes.struct import StructSerde


class JsonSerde(StructSerde[Any]):
    """JSON documents: None, bool, int, finite float, str, list, and dict with str keys. Integers have any size.

    What goes in comes back equal, or is refused when it is written: a tuple would come back as a list, NaN as null,
    a UUID as text. JSON's null inside a document is None; a None given to a store deletes and never gets here.

    Args:
        verify: refuse what would not come back equal. Switch it off only where values are known to be plain.
    """

    def __init__(self, *, verify: bool = True) -> None:
        super().__init__(Any)
        self._verify = verify

    def serialize(self, value: Any) -> bytes:
        """The document, compact, keys in the order given.

        Raises:
            SerializationError: it holds something that JSON has no form for, or, where it is verified, would change.
        """
        if self._verify:
            return super().serialize(value)
        try:
            return self.write(value)
        except Exception as error:
            raise SerializationError(f"not a JSON value: {error}") from error


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
