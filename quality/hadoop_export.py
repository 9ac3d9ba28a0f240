"""The suite of `hadoop_export`: what the quality gate publishes of the masked line items."""

from __future__ import annotations

from quality.reconciliation import line_item
from spark_apps.records.topics import HADOOP_SINK
from storekeeper import CheckedColumn, CheckedTable, Condition, Leaks, WithTopic

_MOST = 999_999_999
_DELIVERED_TO = "Of the delivery address; null without one."

EXPORT = CheckedTable(
    "hadoop_export",
    columns=(
        # The fields of a masked line item: the allow-list. Nothing else about a customer leaves.
        CheckedColumn("InvoiceNumber", "string", leaks=Leaks.CODE),
        # A phone number has ten digits; as a time it would be in 1970, and a card number far beyond the year 9999.
        # From 1990 on: tills may replay old records.
        CheckedColumn("CreatedTime", "bigint", least=631_152_000_000, most=253_402_300_799_999, leaks=Leaks.NUMBER),
        CheckedColumn("StoreID", "string", leaks=Leaks.CODE),
        CheckedColumn("PosID", "string", leaks=Leaks.CODE),
        CheckedColumn("CustomerType", "string", allowed=("PRIME", "NONPRIME"), any_case=True, drift=True),
        CheckedColumn("PaymentMethod", "string", leaks=Leaks.TEXT),
        CheckedColumn("DeliveryType", "string", allowed=("HOME-DELIVERY", "TAKEAWAY"), any_case=True, drift=True),
        CheckedColumn("City", "string", nullable=True, leaks=Leaks.TEXT, meaning=_DELIVERED_TO),
        CheckedColumn("State", "string", nullable=True, leaks=Leaks.TEXT, meaning=_DELIVERED_TO),
        CheckedColumn("PinCode", "string", nullable=True, leaks=Leaks.CODE, meaning=_DELIVERED_TO),
        CheckedColumn("ItemCode", "string", leaks=Leaks.CODE),
        CheckedColumn("ItemDescription", "string", leaks=Leaks.TEXT),
        CheckedColumn("ItemPrice", "decimal(18,4)", least=-_MOST, most=_MOST, leaks=Leaks.NUMBER),
        CheckedColumn("ItemQty", "bigint", least=-_MOST, most=_MOST, leaks=Leaks.NUMBER, drift=True),
        CheckedColumn("TotalValue", "decimal(18,4)", least=-_MOST, most=_MOST, leaks=Leaks.NUMBER, drift=True),
        CheckedColumn("day", "date", meaning="The day of CreatedTime in UTC."),
        # The place of a line item in topic `hadoop-sink`.
        CheckedColumn("_partition", "int", least=0, most=999_999, leaks=Leaks.NUMBER),
        CheckedColumn("_offset", "bigint"),
    ),
    unique=("day", "_partition", "_offset"),
    partition_by=("day",),
    conditions=(
        # A total is rounded to a hundredth.
        Condition("TotalValue is ItemPrice x ItemQty.", "abs({ItemPrice} * {ItemQty} - {TotalValue}) <= 0.01"),
    ),
    reconcile=(WithTopic(HADOOP_SINK, line_item, group_by=("_partition", "StoreID"), sum="TotalValue"),),
)
"""The table of line items, and what the quality gate publishes of them."""
