from __future__ import annotations

import pytest

from harness.sales import sale_bytes
from storekeeper.apps.records import PoisonRecordError
from storekeeper.samples.hadoop_export.app import export_row
from storekeeper.samples.records.invoice import parse_invoice
from storekeeper.samples.records.masked import masked_values, parse_hadoop_record

LINE = masked_values(parse_invoice(b"k", sale_bytes()))[0]


def test_a_line_becomes_a_row() -> None:
    row = export_row(b"k", LINE, max_record_bytes=100_000)
    assert row.record == parse_hadoop_record(b"k", LINE)
    assert (row.item_price_units, row.total_value_units) == (16_445_000, 16_445_000)


@pytest.mark.parametrize(("time_ms", "day"), [(0, 0), (86_399_999, 0), (86_400_000, 1), (1_595_688_900_348, 18_468)])
def test_days_are_those_of_utc(time_ms: int, day: int) -> None:
    line = masked_values(parse_invoice(b"k", sale_bytes(CreatedTime=time_ms)))[0]
    assert export_row(b"k", line, max_record_bytes=100_000).day == day


@pytest.mark.parametrize("value", [b"{}", None])
def test_what_is_no_line_is_poison(value: bytes | None) -> None:
    with pytest.raises(PoisonRecordError):
        export_row(b"k", value, max_record_bytes=100_000)
