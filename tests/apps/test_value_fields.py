from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from storekeeper.apps.registry import store_named, stores
from storekeeper.apps.value_fields import fields_of, value_fields
from storekeeper.errors import ConfigurationError
from storekeeper.serdes.json import json_fields
from storekeeper.serdes.struct import StructSerde
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import derived_columns


class Row(msgspec.Struct, rename="pascal"):
    text: str
    blob: bytes
    number: int
    fraction: float
    flag: bool
    at_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]
    money: Annotated[Decimal, msgspec.Meta(extra={"sql": "decimal(18,4)", "never_negative": True})]
    maybe: Annotated[str, msgspec.Meta(min_length=1)] | None
    count: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]
    above: Annotated[float, msgspec.Meta(gt=0)]
    low: Annotated[int, msgspec.Meta(ge=-1, description="Seldom below zero.")]
    maybe_count: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})] | None = None


def test_fields_follow_from_types() -> None:
    assert value_fields(Row) == (
        ValueField("Text", "string"),
        ValueField("Blob", "string"),
        ValueField("Number", "bigint"),
        ValueField("Fraction", "double"),
        ValueField("Flag", "boolean"),
        ValueField("AtMs", "timestamp"),
        ValueField("Money", "decimal(18,4)", never_negative=True),
        ValueField("Maybe", "string", nullable=True),
        ValueField("Count", "bigint", never_negative=True, only_grows=True),
        ValueField("Above", "double", never_negative=True),
        ValueField("Low", "bigint", meaning="Seldom below zero."),
        ValueField("MaybeCount", "bigint", nullable=True, never_negative=True, only_grows=True),
    )


def test_the_columns_of_the_apps_stores_follow_from_their_rows() -> None:
    rewards = store_named("rewards").value_fields
    assert tuple(replace(field, meaning="") for field in rewards) == (
        ValueField("CustomerCardNo", "string"),
        ValueField("TotalLoyaltyPoints", "decimal(18,4)", never_negative=True, only_grows=True),
        ValueField("InvoiceCount", "bigint", never_negative=True, only_grows=True),
        ValueField("LastInvoiceTime", "timestamp", only_grows=True),
    )
    assert store_named("players").value_fields == (
        ValueField("PlayerID", "string"),
        ValueField("Name", "string", nullable=True),
        ValueField("HighScore", "bigint", only_grows=True),
        ValueField("HighScoreProduct", "string"),
        ValueField("GamesPlayed", "bigint", never_negative=True, only_grows=True),
        ValueField("TotalScore", "bigint", only_grows=True),
        ValueField("LastPlayed", "timestamp", only_grows=True),
    )
    assert store_named("sales").value_fields == store_named("sales-hopping").value_fields
    assert all(store.value_fields for store in stores().values())


def struct_of(kind: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Odd", [("odd", kind)])


class Size(enum.IntEnum):
    SMALL = 1


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Reading:
    at: datetime
    parts: list[int]
    mean: float | None = None


class Movie(TypedDict, total=False):
    name: str
    year: int


class Brief(msgspec.Struct, omit_defaults=True):
    number: int
    more: int = 0
    late: int | msgspec.UnsetType = msgspec.UNSET


class Model(pydantic.BaseModel):
    number: int
    price: Decimal
    tags: list[str]
    by: Colour | None = None


SHAPES: dict[Any, tuple[str, Any, Any]] = {
    Decimal: ("string", Decimal("1.10"), "1.10"),
    datetime: ("timestamp", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    Annotated[datetime, msgspec.Meta(tz=False)]: ("string", datetime(2026, 1, 1), "2026-01-01T00:00:00"),  # noqa: DTZ001
    date: ("date", date(2026, 1, 1), date(2026, 1, 1)),
    time: ("string", time(1, 2), "01:02:00"),
    timedelta: ("string", timedelta(hours=1), "PT3600S"),
    UUID: ("string", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    Size: ("bigint", Size.SMALL, 1),
    Colour: ("string", Colour.RED, "red"),
    Literal["a", "b"]: ("string", "a", "a"),
    Literal[1, 2]: ("bigint", 2, 2),
    list[int]: ("string", [1, 2], "[1,2]"),
    tuple[int, str]: ("string", (1, "a"), '[1,"a"]'),
    set[int]: ("string", {7}, "[7]"),
    dict[int, Decimal]: ("string", {1: Decimal("1.10")}, '{"1":1.10}'),
    list[Brief]: ("string", [Brief(1)], '[{"number":1}]'),
    Brief: ("string", Brief(1, 2), '{"number":1,"more":2}'),
    Reading: ("string", Reading(datetime(2026, 1, 1), []), '{"at":"2026-01-01T00:00:00","parts":[],"mean":null}'),  # noqa: DTZ001
    int | str: ("string", 5, "5"),
    int | float: ("double", 5, 5.0),
    Any: ("string", {"a": [None]}, '{"a":[null]}'),
    int: ("bigint", 2**64, None),
}


@pytest.mark.parametrize("kind", SHAPES, ids=str)
def test_a_field_of_any_shape_has_a_column_that_shows_it(kind: Any) -> None:
    sql_type, value, shown = SHAPES[kind]
    rows: Any = struct_of(kind)
    (field,) = value_fields(rows)
    assert field == ValueField("odd", sql_type, nullable=kind is Any)
    (column,) = derived_columns([StructSerde(rows).serialize(rows(value))], {"odd": field.sql_type}, json_fields)
    assert column.to_pylist() == [shown]


def test_rows_that_are_no_structs_have_columns_too() -> None:
    assert fields_of(StructSerde(Reading)) == (
        ValueField("at", "timestamp"), ValueField("parts", "string"), ValueField("mean", "double", nullable=True),
    )  # fmt: skip
    assert fields_of(StructSerde(Movie)) == (
        ValueField("name", "string", nullable=True), ValueField("year", "bigint", nullable=True),
    )  # fmt: skip
    assert fields_of(StructSerde(Model)) == (
        ValueField("number", "bigint"), ValueField("price", "string"), ValueField("tags", "string"),
        ValueField("by", "string", nullable=True),
    )  # fmt: skip
    for kind in (list[Reading], dict[str, int], dict, Any, Reading | None, int):
        assert fields_of(StructSerde(kind)) == ()  # type: ignore[arg-type]


def test_a_field_that_may_be_left_out_is_nullable() -> None:
    assert [field.nullable for field in value_fields(Brief)] == [False, True, True]


@pytest.mark.parametrize("more", ["never_negative", "only_grows"])
def test_text_has_no_order_to_check(more: str) -> None:
    with pytest.raises(ConfigurationError, match="field odd of Odd is text in snapshots"):
        value_fields(struct_of(Annotated[Decimal, msgspec.Meta(extra={more: True})]))


def test_names_that_no_column_can_have_are_left_out() -> None:
    rows = msgspec.defstruct("Odd", [("_key", bytes), ("a", int), ("A", int)])
    assert [field.name for field in fields_of(StructSerde(rows))] == ["a"]


def test_a_sql_type_that_no_column_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="map"):
        value_fields(struct_of(Annotated[int, msgspec.Meta(extra={"sql": "map<int>"})]))


def test_rows_that_are_no_objects_are_refused() -> None:
    array: Any = msgspec.defstruct("Array", [("one", int)], array_like=True)
    number: Any = int
    for rows in (array, number):
        with pytest.raises(ConfigurationError, match="not JSON objects"):
            value_fields(rows)
