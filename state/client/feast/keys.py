"""The key of a store's row, from the entity that Feast asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from state.client.questions import Key
from state.errors import InvalidArgumentError

_TEXT = {"string_val", "uuid_val", "time_uuid_val"}
_WHOLE = {"int32_val", "int64_val"}


def check_entities(view: str, entities: Sequence[str]) -> None:
    """Checks that a feature view has the one entity that a row's key can be.

    Raises:
        InvalidArgumentError: it has none, or several.
    """
    if len(entities) != 1 or entities[0].startswith("__dummy"):
        msg = (
            f"feature view {view} needs one entity, because a row of a store has one key: declare the entity whose "
            "join key holds that key as text, a whole number or bytes"
        )
        raise InvalidArgumentError(msg)


def row_key(join_key: str, kind: str | None, value: Any) -> Key:
    """The key of an entity's row: text and bytes as they are, a whole number as its decimal digits.

    Args:
        join_key: the entity's join key.
        kind: the field of Feast's `Value` that holds the entity's value, such as `int64_val`.
        value: what it holds.

    Raises:
        InvalidArgumentError: a key can't be of that type.
    """
    if kind in _TEXT:
        return str(value)
    if kind in _WHOLE:
        return str(int(value))
    if kind == "bytes_val":
        return bytes(value)
    msg = f"join key {join_key} is {kind or 'empty'}: the key of a row is text, a whole number or bytes"
    raise InvalidArgumentError(msg)
