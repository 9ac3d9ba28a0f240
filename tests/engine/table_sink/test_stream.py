"""Rows of a table: a record without a row that fits becomes a dead letter, and the others are written."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storekeeper import AppSettings, CheckedColumn, CheckedTable, PoisonRecordError
from storekeeper.apps.spec import TableRow, TableSink
from storekeeper.engine.table_sink.letters import LETTER_COLUMNS
from storekeeper.engine.table_sink.stream import parsed_rows
from storekeeper.errors import StorageError
from storekeeper.topology.records import RecordFields

BILLS = CheckedTable(
    "bills",
    columns=(
        CheckedColumn("name", "string"),
        CheckedColumn("pieces", "bigint"),
        CheckedColumn("price", "decimal(10,2)"),
        CheckedColumn("day", "date"),
        CheckedColumn("_partition", "int"),
        CheckedColumn("_offset", "bigint"),
    ),
    unique=("_partition", "_offset"),
)
GOOD = b'{"name": "a", "pieces": 1, "price": "1.50"}'
SECRET = "4111111111111111"
DAY = datetime.date(2026, 1, 1)


def bill(key: bytes | None, value: bytes | None, settings: AppSettings) -> tuple[object, ...]:
    """A row as apps make it: the JSON may have any values."""
    fields = json.loads(value or b"")
    price = fields["price"]
    return fields["name"], fields["pieces"], Decimal(price) if isinstance(price, str) else price, DAY


def parsed(row: TableRow, *values: bytes) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows, and what `LETTER_COLUMNS` have of dead letters."""
    records: list[RecordFields] = [("bills", 3, number, 7, b"k", value, ()) for number, value in enumerate(values)]
    table = pa.Table.from_batches(
        list(parsed_rows(records, sink=TableSink("bills", BILLS, row), settings=AppSettings()))
    )
    rows, letters = (
        zip(*(part[name].to_pylist() for name in names), strict=True)
        for part, names in (
            (table.filter(table["_error"].is_null()), [column.name for column in BILLS.columns]),
            (table.filter(table["_error"].is_valid()), LETTER_COLUMNS),
        )
    )
    return list(rows), list(letters)


def row_at(offset: int) -> tuple[object, ...]:
    return "a", 1, Decimal("1.50"), DAY, 3, offset


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            b'{"name": "\\ud800", "pieces": 1, "price": "1"}',
            "column name is string, and the row has a value of type str",
        ),
        (b'{"name": 7, "pieces": 1, "price": "1"}', "column name is string, and the row has a value of type int"),
        (b'{"name": "a", "pieces": 9223372036854775808, "price": "1"}', "column pieces is bigint"),
        (b'{"name": "a", "pieces": "%s", "price": "1"}' % SECRET.encode(), "column pieces is bigint"),
        (
            b'{"name": "a", "pieces": 1.5, "price": "1"}',
            "column pieces is bigint, and the row has a value of type float",
        ),
        (b'{"name": "a", "pieces": true, "price": "1"}', "column pieces is bigint"),
        (b'{"name": "a", "pieces": NaN, "price": "1"}', "column pieces is bigint"),
        (b'{"name": "a", "pieces": 1, "price": "0.123"}', r"column price is decimal(10,2)"),
        (b'{"name": "a", "pieces": 1, "price": "NaN"}', r"column price is decimal(10,2)"),
        (b'{"name": "a", "pieces": 1, "price": "1e12"}', r"column price is decimal(10,2)"),
    ],
)
def test_a_row_that_does_not_fit_is_a_dead_letter_that_names_the_column(bad: bytes, reason: str) -> None:
    rows, letters = parsed(bill, GOOD, bad, GOOD)
    assert rows == [row_at(0), row_at(2)]
    ((*place, why, kind),) = letters
    assert (place, kind) == ([3, 1, 7, b"k", bad], "PoisonRecordError")
    assert why.startswith(reason)
    assert SECRET not in why


def test_all_bad_records_of_a_batch_are_dead_letters_in_their_order() -> None:
    rows, letters = parsed(
        bill, b'{"name": 7, "pieces": 1, "price": "1"}', b"junk", b'{"name": 8, "pieces": 1, "price": "1"}'
    )
    assert rows == []
    assert [(offset, kind) for _, offset, *_, kind in letters] == [
        (0, "PoisonRecordError"),
        (1, "JSONDecodeError"),
        (2, "PoisonRecordError"),
    ]


def test_bad_rows_are_found_wherever_they_are() -> None:
    bad = b'{"name": 7, "pieces": 1, "price": "1"}'
    for count in range(1, 7):
        for pattern in range(2**count):
            is_bad = [bool(pattern >> number & 1) for number in range(count)]
            rows, letters = parsed(bill, *(bad if each else GOOD for each in is_bad))
            assert rows == [row_at(number) for number in range(count) if not is_bad[number]]
            assert [offset for _, offset, *_ in letters] == [number for number in range(count) if is_bad[number]]


def failing(error: Exception) -> Callable[..., tuple[object, ...]]:
    def row(key: bytes | None, value: bytes | None, settings: AppSettings) -> tuple[object, ...]:
        if value != GOOD:
            raise error
        return bill(key, value, settings)

    return row


def test_a_record_that_the_function_fails_on_is_a_dead_letter_that_names_the_line() -> None:
    rows, letters = parsed(failing(KeyError(SECRET)), GOOD, b"bad")
    assert rows == [row_at(0)]
    assert letters[0][-1] == "KeyError"
    assert "table_sink/test_stream.py:" in letters[0][-2]
    assert letters[0][-2].endswith("in row")
    assert SECRET not in letters[0][-2]
    _, letters = parsed(failing(PoisonRecordError("no bill \ud800")), GOOD, b"bad")
    assert letters[0][-2:] == ("no bill \\ud800", "PoisonRecordError")


@pytest.mark.parametrize("error", [MemoryError(), StorageError("the disk is gone"), ConnectionResetError()])
def test_an_error_that_no_record_is_to_blame_for_fails_the_batch(error: Exception) -> None:
    with pytest.raises(type(error)):
        parsed(failing(error), GOOD, b"bad")


def test_a_row_with_another_number_of_values_is_a_dead_letter() -> None:
    _, letters = parsed(lambda key, value, settings: ("a", 1), GOOD)
    assert letters[0][-2] == "the row has 2 values, and the table 4 columns for them"


def test_rows_that_fit_are_converted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.engine.table_sink.stream._check_fits", None)
    rows, letters = parsed(bill, GOOD, GOOD)
    assert (len(rows), letters) == (2, [])
