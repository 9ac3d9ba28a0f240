"""Errors about values quote nothing of them."""

from __future__ import annotations

import enum
from typing import Any, Literal

import msgspec
import pydantic
import pytest

from storekeeper.apps.records import PoisonRecordError, StrictDecoder
from storekeeper.errors import SerializationError
from storekeeper.serdes.struct import StructSerde


class Size(enum.Enum):
    SMALL = "small"


class Sized(msgspec.Struct, forbid_unknown_fields=True):
    size: Size
    kind: Literal["a", "b"] = "a"


class One(msgspec.Struct, tag="one"):
    number: int


class Two(msgspec.Struct, tag="two"):
    number: int


class Checked(msgspec.Struct):
    card: str

    def __post_init__(self) -> None:
        raise TypeError(f"{self.card} is no card")


class Model(pydantic.BaseModel):
    number: int


class Boxed(msgspec.Struct):
    model: Model
    more: list[Checked] = []


CASES = [
    (Sized, b'{"size":"secret"}', "Invalid enum value - at `$.size`"),
    (Sized, b'{"size":"secret - at `$.secret`"}', "Invalid enum value - at `$.size`"),
    (Sized, b'{"size":"small","kind":"secret"}', "Invalid enum value - at `$.kind`"),
    (Sized, b'{"size":"small","secret":1}', "Object contains unknown field"),
    (list[One | Two], b'[{"type":"secret","number":1}]', r"Invalid value - at `$[0].type`"),
    (Checked, b'{"card":"secret"}', "TypeError"),
    (Boxed, b'{"model":{"number":"secret"}}', "`number`: int_parsing - at `$.model`"),
    (Boxed, b'{"model":{"number":1},"more":[{"card":"secret"}]}', r"TypeError - at `$.more[0]`"),
    (Size, b'"secret"', "Invalid enum value"),
]


@pytest.mark.parametrize(("type_", "data", "reason"), CASES)
def test_an_error_names_the_place_and_quotes_nothing(type_: Any, data: bytes, reason: str) -> None:
    with pytest.raises(SerializationError) as unread:
        StructSerde(type_).deserialize(data)
    assert str(unread.value).endswith(f": {reason}")
    with pytest.raises(SerializationError) as unwritten:
        StructSerde(type_).serialize(msgspec.json.decode(data))
    assert "secret" not in str(unwritten.value)


@pytest.mark.parametrize(("data", "reason"), [(data, reason) for type_, data, reason in CASES if type_ is Sized])
def test_nor_does_a_dead_letter(data: bytes, reason: str) -> None:
    with pytest.raises(PoisonRecordError) as refused:
        StrictDecoder(Sized, max_record_bytes=1000).decode_value(data)
    assert str(refused.value) == reason
