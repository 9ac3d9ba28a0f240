"""Line items in the staged table, as the export leaves them, written by deltalake: for tests of the gate."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from quality.hadoop_export import EXPORT
from storekeeper.quality.settings import QualitySettings
from tests.local_tables import local_table

COLUMNS = {column.name: column.sql_type for column in EXPORT.columns}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
"""Of a line item, as Spark takes it."""
_KINDS = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "decimal(18,4)": pa.decimal128(18, 4),
}


def line(offset: int, **changes: Any) -> dict[str, Any]:
    """A good line item, with some fields changed."""
    return {
        "InvoiceNumber": f"INV-{offset:010d}",
        "CreatedTime": 1_760_000_000_000,
        "StoreID": "STR7188",
        "PosID": "POS956",
        "CustomerType": "prime",
        "PaymentMethod": "CARD",
        "DeliveryType": "HOME-DELIVERY",
        "City": "Ulhasnagar",
        "State": "Maharashtra",
        "PinCode": "421004",
        "ItemCode": "548",
        "ItemDescription": "Cloth Hangers, 2026-11-21, 500/1000/2000 mm",
        "ItemPrice": Decimal("19.9900"),
        "ItemQty": 3,
        "TotalValue": Decimal("59.9700"),
        "day": datetime.date(2025, 10, 9),
        "_partition": 2,
        "_offset": offset,
        **changes,
    }


def stage(
    settings: QualitySettings, *lines: dict[str, Any], extra: str = "", without: str = "", metadata: str = ""
) -> None:
    """Appends line items to the staged table in one commit.

    Args:
        settings: where the table is.
        lines: what `line` returns.
        extra: the name of a further column of texts.
        without: the name of a column that the table doesn't get.
        metadata: the commit's user metadata, none by default.
    """
    kinds = COLUMNS | ({extra: "string"} if extra else {})
    schema = pa.schema([(name, _KINDS[kind]) for name, kind in kinds.items() if name != without])
    write_deltalake(
        local_table(settings, EXPORT.staged_name),
        pa.Table.from_pylist(list(lines), schema=schema),
        mode="append",
        schema_mode="merge" if extra else None,
        partition_by=["day"],
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": metadata} if metadata else None),
    )
