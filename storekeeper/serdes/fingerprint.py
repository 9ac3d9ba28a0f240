"""What tells two versions of a value apart."""

from __future__ import annotations

from typing import Any

import xxhash

from storekeeper.serdes.differences import field_names
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import StructSerde


def fingerprint(value: Any, serde: Serde[Any]) -> bytes:
    """Eight bytes that are the same for equal values of one type, in any process."""
    # A set has no order of its own: hashes of texts differ from process to process.
    has_order = not (isinstance(serde, StructSerde) and serde.holds_sets)
    return xxhash.xxh3_64_digest(serde.serialize(value) if has_order else repr(in_order(value)).encode())


def in_order(part: Any) -> Any:
    """The value in lists, the parts of each set in the order of their texts."""
    if isinstance(part, set | frozenset):
        return sorted((in_order(inner) for inner in part), key=repr)
    inner = _inner(part)
    return part if inner is None else [type(part).__name__, *map(in_order, inner)]


def _inner(part: Any) -> list[Any] | None:
    if isinstance(part, dict):
        return list(part.items())
    if isinstance(part, list | tuple):
        return list(part)
    names = field_names(type(part))
    return None if names is None else [getattr(part, name, None) for name in names]
