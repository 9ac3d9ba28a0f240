"""Rows of a store as the features of a view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from state.client.feast.view import ServedView
from state.errors import InvalidArgumentError, SerializationError

VIEW = ServedView(
    name="cards",
    store="rewards",
    kinds={"points": "INT64", "Name": "STRING"},
    fields={"points": "TotalLoyaltyPoints"},
    event_time="At",
)


def test_a_feature_is_the_field_of_its_name_or_the_mapped_one() -> None:
    value = {"TotalLoyaltyPoints": 7, "Name": "Anna", "At": 1000, "Other": {}}
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert VIEW.row(value, ["points", "Name"]) == (at, {"points": {"int64_val": 7}, "Name": {"string_val": "Anna"}})
    assert VIEW.row(value, ["Name"]) == (at, {"Name": {"string_val": "Anna"}})


def test_there_is_no_row_without_a_value() -> None:
    assert VIEW.row(None, ["points"]) == (None, None)


def test_a_missing_field_is_left_out_and_null_is_a_value_without_content() -> None:
    assert VIEW.row({"Name": None}, ["points", "Name"]) == (None, {"Name": {}})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "a value of store rewards is no JSON object"),
        ({"TotalLoyaltyPoints": "7"}, "field TotalLoyaltyPoints of store rewards can't be feature points: a str is no"),
        ({"At": "noon"}, "field At of store rewards can't be the time of view cards"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(value: Any, says: str) -> None:
    with pytest.raises(SerializationError, match=says):
        VIEW.row(value, ["points"])


def test_a_feature_that_the_view_lacks_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="view cards has no feature Other"):
        VIEW.row({"Other": 1}, ["Other"])


def test_a_type_that_can_not_be_read_is_refused_before_the_first_read() -> None:
    VIEW.check_types()
    with pytest.raises(InvalidArgumentError, match="feature where of view places is MAP, which can't be read"):
        ServedView("places", "places", {"where": "MAP"}, {}).check_types()
