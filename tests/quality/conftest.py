"""A Spark session and a staged table that tests fill with line items."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quality.settings import QualitySettings
from spark_apps.apps.hadoop_export.table import COLUMNS
from spark_apps.runtime.session import start_session, stop_session

SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = QualitySettings(run_dir=tmp_path_factory.mktemp("spark"))  # type: ignore[call-arg]
    session = start_session("quality-tests", settings)
    yield session
    stop_session(session)


@pytest.fixture
def settings(tmp_path: Path) -> QualitySettings:
    return QualitySettings(run_dir=tmp_path)  # type: ignore[call-arg]


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
    spark: SparkSession, settings: QualitySettings, *lines: dict[str, Any], extra: str = "", metadata: str = ""
) -> None:
    """Appends line items to the staged table in one commit; `extra` is a further column, as `name type`."""
    schema = f"{SCHEMA}, {extra}" if extra else SCHEMA
    (
        spark.createDataFrame(list(lines), schema)
        .write.format("delta")
        .mode("append")
        .partitionBy("day")
        .option("delta.enableChangeDataFeed", "true")
        .option("mergeSchema", "true")
        .option("userMetadata", metadata)
        .save(str(settings.delta_table("hadoop_export_staged")))
    )
