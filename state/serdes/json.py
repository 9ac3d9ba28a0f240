"""JSON values, by orjson."""

from __future__ import annotations

from typing import Any

import orjson

from state.errors import SerializationError

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


class JsonSerde:
    """JSON documents: None, bool, int (64 bit), finite float, str, list, and dict with str keys.

    What goes in comes back equal, or is refused when it is written: a tuple would come back as a list, NaN as null,
    a UUID as text. JSON's null inside a document is None; a None given to a store deletes and never gets here.

    Args:
        verify: read back what was written and compare. Switch it off only where values are known to be plain.
    """

    def __init__(self, *, verify: bool = True) -> None:
        self._verify = verify

    def serialize(self, value: Any) -> bytes:
        """The document, compact, keys in the order given.

        Raises:
            SerializationError: it holds something that JSON has no form for, or, where it is verified, would change.
        """
        try:
            data = orjson.dumps(value, option=_OPTIONS)
        except TypeError as error:
            msg = f"not a JSON value: {error}"
            raise SerializationError(msg) from error
        if self._verify and orjson.loads(data) != value:
            msg = f"a {type(value).__name__} with a part that JSON would change (tuple, NaN, UUID, Enum); convert it"
            raise SerializationError(msg)
        return data

    def deserialize(self, data: bytes) -> Any:
        """The document.

        Raises:
            SerializationError: the bytes are not JSON.
        """
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            msg = f"{len(data)} bytes are not a JSON document: {error}"
            raise SerializationError(msg) from error
