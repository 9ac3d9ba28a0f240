from __future__ import annotations

from datetime import date
from decimal import Decimal

import msgspec
import pytest

from harness.sales import sale_bytes
from quality.hadoop_export import EXPORT
from spark_apps.hadoop_export import export_row
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import HadoopRecord, masked_values, parse_hadoop_record
from storekeeper.apps.records import PoisonRecordError
from storekeeper.apps.settings import AppSettings

SETTINGS = AppSettings()
COLUMNS = [column.name for column in EXPORT.columns[:-2]]
LINE = masked_values(parse_invoice(b"k", sale_bytes()))[0]


def test_a_line_becomes_a_row() -> None:
    row = dict(zip(COLUMNS, export_row(b"k", LINE, SETTINGS), strict=True))
    line = parse_hadoop_record(b"k", LINE)
    assert (row["InvoiceNumber"], row["ItemQty"], row["City"]) == (line.invoice_number, line.item_qty, line.city)
    assert (row["ItemPrice"], row["TotalValue"]) == (Decimal("1644.5000"), Decimal("1644.5000"))


def test_the_allow_list_is_that_of_the_record() -> None:
    assert COLUMNS[:-1] == [field.encode_name for field in msgspec.structs.fields(HadoopRecord)]


@pytest.mark.parametrize(
    ("time_ms", "day"),
    [(0, "1970-01-01"), (86_399_999, "1970-01-01"), (86_400_000, "1970-01-02"), (1_595_688_900_348, "2020-07-25")],
)
def test_days_are_those_of_utc(time_ms: int, day: str) -> None:
    line = masked_values(parse_invoice(b"k", sale_bytes(CreatedTime=time_ms)))[0]
    assert export_row(b"k", line, SETTINGS)[-1] == date.fromisoformat(day)


@pytest.mark.parametrize("value", [b"{}", None])
def test_what_is_no_line_is_poison(value: bytes | None) -> None:
    with pytest.raises(PoisonRecordError):
        export_row(b"k", value, SETTINGS)
