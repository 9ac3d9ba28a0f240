"""Keys of rows from entities."""

from __future__ import annotations

from typing import Any

import pytest

from state.client.feast.keys import check_entities, row_key
from state.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("string_val", "käse/brot", "käse/brot"),
        ("string_val", "", ""),
        ("int64_val", 4_836_051_607, "4836051607"),
        ("int32_val", -7, "-7"),
        ("bytes_val", b"\xff\x00", b"\xff\x00"),
        ("uuid_val", "3f2504e0", "3f2504e0"),
    ],
)
def test_a_key_is_the_text_the_digits_or_the_bytes_of_an_entity(kind: str, value: Any, key: str | bytes) -> None:
    assert row_key("card", kind, value) == key


@pytest.mark.parametrize(("kind", "value"), [(None, None), ("double_val", 1.0), ("bool_val", True)])
def test_other_types_are_no_key(kind: str | None, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="join key card is"):
        row_key("card", kind, value)


@pytest.mark.parametrize("entities", [[], ["card", "shop"], ["__dummy"], ["__dummy_id"]])
def test_a_view_has_one_entity(entities: list[str]) -> None:
    check_entities("cards", ["card"])
    with pytest.raises(InvalidArgumentError, match="view cards needs one entity"):
        check_entities("cards", entities)
