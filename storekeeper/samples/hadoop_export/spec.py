"""What `hadoop_export` reads and writes, and what its table must be."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition, Leaks, WithTopic
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.samples.records.topics import HADOOP_SINK

_MOST = 999_999_999
_DELIVERED_TO = "Of the delivery address; null without one."


def line_item(key: bytes | None, value: bytes | None, settings: AppSettings) -> Mapping[str, Any] | None:
    """Store and total of the line item in a record; None if it holds none, and is a dead letter."""
    from storekeeper.apps.records import PoisonRecordError  # noqa: PLC0415
    from storekeeper.samples.records.masked import parse_hadoop_record  # noqa: PLC0415 (a spec loads no parser)
    from storekeeper.samples.records.money import to_units  # noqa: PLC0415

    try:
        line = parse_hadoop_record(key, value, max_record_bytes=settings.max_record_bytes)
    except PoisonRecordError:
        return None
    return {"StoreID": line.store_id, "TotalValue": Decimal(to_units(line.total_value)).scaleb(-4)}


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

HADOOP_EXPORT = AppSpec(
    name="hadoop_export",
    title="Masked line items to Delta",
    module="storekeeper.samples.hadoop_export.app",
    sources=lambda _: (HADOOP_SINK,),
    sinks=lambda _: (),
    dead_letters=True,
    tables=(EXPORT,),
)
