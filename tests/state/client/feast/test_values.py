"""JSON values as the types of Feast: exactly, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from state.client.feast.values import content, is_served, moment, served_kinds
from state.errors import SerializationError

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
    with pytest.raises(SerializationError, match=f"is no {kind}") as refused:
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
