"""JSON documents of any shape."""

from __future__ import annotations

from typing import Any

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
            msg = f"not a JSON value: {error}"
            raise SerializationError(msg) from error
