"""Whether the bytes of keys are in the order of the keys: ranges of a store are ranges of bytes."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import KeySerde, StructSerde

_IN_ORDER = (date, UUID)


def writes_json(serde: Serde[Any]) -> bool:
    """Whether the order of the bytes may not be that of the keys."""
    return isinstance(serde, StructSerde | JsonSerde)


def keeps_order(serde: Serde[Any], key: Any = None) -> bool:
    """Whether ranges up to a key have the keys that they should have.

    JSON is text: 10 comes before 9. Dates and UUIDs are always equally long there.

    Args:
        serde: of the keys.
        key: an end of the range; None if it is open.
    """
    if isinstance(serde, JsonSerde) or (isinstance(serde, KeySerde) and serde.type is Any):
        return key is None or isinstance(key, str)
    return not isinstance(serde, StructSerde) or serde.type in _IN_ORDER
