"""What a serde does, without the calls around it: for values and bytes that it takes.

Where the serde raises a `SerializationError`, these raise any error. Done again by the serde, it says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from storekeeper.serdes.serde import Serde, Utf8Serde
from storekeeper.serdes.struct import KeySerde, StructSerde

T = TypeVar("T")


def bare_serialize(serde: Serde[T]) -> Callable[[T], bytes]:
    """`serde.serialize`."""
    known: Any = serde
    return cast("Callable[[T], bytes]", str.encode) if type(known) is Utf8Serde else serde.serialize


def bare_deserialize(serde: Serde[T]) -> Callable[[bytes], T]:
    """`serde.deserialize`."""
    known: Any = serde
    if type(known) is Utf8Serde:
        return cast("Callable[[bytes], T]", bytes.decode)
    return cast("Callable[[bytes], T]", known.read) if type(known) in {StructSerde, KeySerde} else serde.deserialize
