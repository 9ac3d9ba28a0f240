"""What the quality gate compares the export's rows with."""

from __future__ import annotations

from decimal import Decimal

from harness.sales import sale_bytes
from quality.hadoop_export import EXPORT
from quality.reconciliation import line_item
from spark_apps.hadoop_export import export_row
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import masked_values
from storekeeper import AppSettings

SETTINGS = AppSettings()


def test_a_line_counts_with_its_total_in_its_store() -> None:
    for line in masked_values(parse_invoice(b"k", sale_bytes())):
        row = dict(zip([column.name for column in EXPORT.columns], export_row(b"k", line, SETTINGS), strict=False))
        assert line_item(b"k", line, SETTINGS) == {"StoreID": row["StoreID"], "TotalValue": row["TotalValue"]}
        assert isinstance(row["TotalValue"], Decimal)


def test_what_becomes_a_dead_letter_is_no_row() -> None:
    for value in (None, b"", b"{}", b"nonsense"):
        assert line_item(b"k", value, SETTINGS) is None
