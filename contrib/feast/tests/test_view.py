"""Rows of a store as the features of a view."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from storekeeper_feast.view import ServedView, check_entities, content, is_served, moment, row_key, served_kinds

from storekeeper.errors import InvalidArgumentError, SerializationError

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
        (7, "a value of store rewards is not a JSON object"),
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


ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@pytest.mark.parametrize(
    ("kind", "found", "made"),
    [
        ("BOOL", True, {"bool_val": True}),
        ("BYTES", "/wA=", {"bytes_val": b"\xff\x00"}),
        ("DECIMAL", Decimal("12.0300"), {"decimal_val": "12.0300"}),
        ("DECIMAL", 7, {"decimal_val": "7"}),
        ("DOUBLE", Decimal("139.46"), {"double_val": 139.46}),
        ("DOUBLE", 3, {"double_val": 3.0}),
        ("FLOAT", Decimal("0.5"), {"float_val": 0.5}),
        ("INT32", -(1 << 31), {"int32_val": -(1 << 31)}),
        ("INT64", (1 << 63) - 1, {"int64_val": (1 << 63) - 1}),
        ("INT64", Decimal("3.00"), {"int64_val": 3}),
        ("STRING", "käse", {"string_val": "käse"}),
        ("TIME_UUID", ID, {"time_uuid_val": ID}),
        ("UNIX_TIMESTAMP", "2026-01-01T12:00:00+01:00", {"unix_timestamp_val": 1_767_265_200}),
        ("UNIX_TIMESTAMP", "1969-12-31T23:59:59Z", {"unix_timestamp_val": -1}),
        ("UUID", ID, {"uuid_val": ID}),
        ("INT64_LIST", [1, 2], {"int64_list_val": {"val": [1, 2]}}),
        ("STRING_LIST", [], {"string_list_val": {"val": []}}),
        ("STRING", None, {}),
        ("INT64_LIST", None, {}),
    ],
)
def test_a_value_is_exactly_what_json_has(kind: str, found: Any, made: dict[str, Any]) -> None:
    assert content(kind, found) == made


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("BOOL", 1),
        ("BYTES", "not base64!"),
        ("DECIMAL", "12.03"),
        ("DOUBLE", Decimal("1e999")),
        ("DOUBLE", "1"),
        ("FLOAT", Decimal("1e39")),
        ("INT32", 1 << 31),
        ("INT64", Decimal("0.5")),
        ("INT64", Decimal("1e999999999")),
        ("INT64", 1 << 63),
        ("INT64", "7"),
        ("INT64", True),
        ("INT64_LIST", [1, None]),
        ("INT64_LIST", 1),
        ("STRING", 7),
        ("STRING", {"a": 1}),
        ("UNIX_TIMESTAMP", 1_767_268_800),
        ("UNIX_TIMESTAMP", "2026-01-01T12:00:00.5Z"),
        ("UNIX_TIMESTAMP", "yesterday"),
        ("UUID", "7"),
    ],
)
def test_what_a_type_can_not_hold_is_refused_without_its_content(kind: str, found: Any) -> None:
    with pytest.raises(SerializationError, match=f"is not a {kind}") as refused:
        content(kind, found)
    assert repr(found) not in str(refused.value)


def test_types_without_a_form_in_json_are_not_served() -> None:
    assert [kind for kind in served_kinds() if not is_served(f"{kind}_LIST")] == []
    for kind in ("MAP", "STRUCT_LIST", "INT64_SET", "ZONED_TIMESTAMP", "PDF_BYTES", "UNKNOWN"):
        assert not is_served(kind)


def test_the_time_of_an_event_is_milliseconds_or_text() -> None:
    assert moment(1_767_268_800_001) == datetime(2026, 1, 1, 12, 0, 0, 1000, tzinfo=UTC)
    assert moment("2026-01-01T13:00:00+01:00") == moment("2026-01-01T12:00:00") == moment(1_767_268_800_000)


@pytest.mark.parametrize("found", [True, Decimal("0.5"), "noon", [], 1 << 62])
def test_other_times_are_refused(found: Any) -> None:
    with pytest.raises(SerializationError, match="neither epoch milliseconds nor"):
        moment(found)
