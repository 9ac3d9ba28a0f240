from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from spark_apps.leaderboard.spec import PLAYERS, PRODUCTS
from spark_apps.loyalty.spec import REWARDS
from spark_apps.order_location.spec import ORDER_LOCATIONS, ORDERS
from spark_apps.sales_windows.spec import SALES, SALES_HOPPING
from spark_apps.session_tracker.spec import USER_SESSIONS
from spark_apps.ticks.spec import PRICES

from spark_apps.apps.leaderboard import Player, Product, Standing
from spark_apps.apps.once import Seen
from spark_apps.apps.order_location import OrderLocation, OrderTime
from spark_apps.apps.sales_windows import ItemSales
from spark_apps.apps.session_tracker import UserSession
from spark_apps.apps.ticks import Price
from spark_apps.new_app.template_app.spec import TOTALS
from spark_apps.new_app.template_app.streams import Totals
from spark_apps.records.rewards import Rewards
from spark_apps.spec import StoreSpec, ValueField
from spark_apps.value_fields import value_fields
from state.errors import ConfigurationError


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
    low: Annotated[int, msgspec.Meta(ge=-1)]
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
        ValueField("Low", "bigint"),
        ValueField("MaybeCount", "bigint", nullable=True, never_negative=True, only_grows=True),
    )


@pytest.mark.parametrize(
    ("rows", "store"),
    [
        (Player, PLAYERS), (Product, PRODUCTS), (OrderLocation, ORDERS), (OrderLocation, ORDER_LOCATIONS),
        (ItemSales, SALES), (ItemSales, SALES_HOPPING), (UserSession, USER_SESSIONS), (Price, PRICES),
        (Rewards, REWARDS), (Totals, TOTALS),
    ],
)  # fmt: skip
def test_rows_of_the_apps_have_the_fields_that_were_declared_by_hand(
    rows: type[msgspec.Struct], store: StoreSpec
) -> None:
    assert value_fields(rows) == store.value_fields


@pytest.mark.parametrize("rows", [Standing, Seen, OrderTime])
def test_rows_of_the_apps_own_stores_have_fields(rows: type[msgspec.Struct]) -> None:
    assert value_fields(rows)


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
        with pytest.raises(ConfigurationError, match="no JSON objects"):
            value_fields(rows)
