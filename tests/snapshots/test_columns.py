from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storekeeper.apps.registry import stores
from storekeeper.errors import ConfigurationError
from storekeeper.schemas.arrow_types import arrow_type
from storekeeper.serdes.json import json_fields
from storekeeper.snapshots.columns import derived_columns, snapshot_schema

NOON_MS = 1_767_268_800_000
EXACT = "1234567890123456789012345678.0123456789"


def derived(sql_type: str, text: str) -> Any:
    (column,) = derived_columns([f'{{"F":{text}}}'.encode()], {"F": sql_type}, json_fields)
    assert column.type == arrow_type(sql_type)
    return column[0].as_py()


@pytest.mark.parametrize(
    ("sql_type", "text", "expected"),
    [
        ("string", '"a"', "a"),
        ("string", "12", "12"),
        ("string", "1.50", "1.50"),
        ("string", '{"a":12345678901234567.89}', '{"a":12345678901234567.89}'),
        ("string", '{"a":[1]}', '{"a":[1]}'),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "9223372036854775808", None),
        ("bigint", "1.0", 1),
        ("bigint", "1e3", 1000),
        ("bigint", "9223372036854775808.0", None),
        ("bigint", "1.5", None),
        ("bigint", "1e99999999", None),
        ("bigint", "true", None),
        ("bigint", '"1"', None),
        ("int", "2147483648", None),
        ("tinyint", "-128", -128),
        ("boolean", "true", True),
        ("boolean", "1", None),
        ("double", "0.1", 0.1),
        ("double", "3", 3.0),
        ("double", '"NaN"', None),
        ("decimal(18,4)", "12345678901234.5678", Decimal("12345678901234.5678")),
        ("decimal(18,4)", "0.00005", Decimal("0.0001")),
        ("decimal(18,4)", "99999999999999.99995", None),
        (
            "decimal(38,10)",
            "1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        ("decimal(18, 4)", "7", Decimal("7.0000")),
        ("decimal(18,4)", "1e-99999999999999999999", None),
        ("decimal(18,4)", "1e99999999", None),
        ("decimal(18,4)", "null", None),
        ("timestamp", str(NOON_MS), datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)),
        ("timestamp", "9223372036854775807", None),
        ("timestamp", "253402300799999", datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, datetime.UTC)),
        ("timestamp", "253402300800000", None),
        ("timestamp", "-62135596800000", datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
        ("timestamp", "-62135596800001", None),
        ("timestamp", '"2026-01-01"', None),
        ("timestamp", '"9999-12-31T23:59:59-05:00"', None),
        ("timestamp", '"0001-01-01T00:00:00+14:00"', None),
        ("timestamp", '"2026-01-01T12:00:00"', None),
        ("timestamp", '"2026-01-01T13:00:00.000001+01:00"', datetime.datetime(2026, 1, 1, 12, 0, 0, 1, datetime.UTC)),
        ("date", '"2026-01-01"', datetime.date(2026, 1, 1)),
        ("date", '"2026-13-01"', None),
        ("date", "20260101", None),
    ],
)
def test_a_field_becomes_a_value_of_its_type_or_none(sql_type: str, text: str, expected: object) -> None:
    assert derived(sql_type, text) == expected


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"1", b'{"G":1}', b"\xff", b"[" * 10_000])
def test_what_is_no_object_with_the_field_has_none(value: bytes | None) -> None:
    (column,) = derived_columns([value], {"F": "bigint"}, json_fields)
    assert column.to_pylist() == [None]


def test_a_type_that_no_column_can_have_is_refused_with_those_that_it_can() -> None:
    with pytest.raises(ConfigurationError, match=r"can't be of SQL type array<int>: use string, .* or decimal"):
        snapshot_schema({"F": "array<int>"})


def test_every_declared_field_has_a_column() -> None:
    for store in stores().values():
        assert snapshot_schema({item.name: item.sql_type for item in store.value_fields}).names[-5:] == [
            "_partition",
            "_offset",
            "_timestamp_ms",
            "_key",
            "_value",
        ]
    assert snapshot_schema({}).field("_key").type == pa.binary()
