from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest

from spark_apps.registry import store_named, stores
from spark_apps.value_fields import value_fields
from state.errors import ConfigurationError
from state.serdes.value_field import ValueField


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


@pytest.mark.parametrize("kind", [Decimal, list[int], int | str, Any, Row])
def test_a_field_without_a_sql_type_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="field odd of Odd has no SQL type"):
        value_fields(struct_of(kind))


def test_a_sql_type_that_no_column_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="map"):
        value_fields(struct_of(Annotated[int, msgspec.Meta(extra={"sql": "map<int>"})]))


def test_rows_that_are_no_objects_are_refused() -> None:
    array: Any = msgspec.defstruct("Array", [("one", int)], array_like=True)
    number: Any = int
    for rows in (array, number):
        with pytest.raises(ConfigurationError, match="not JSON objects"):
            value_fields(rows)
