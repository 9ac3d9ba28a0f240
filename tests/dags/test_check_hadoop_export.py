from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.dags.conftest import RunDag

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

LINE: dict[str, Any] = {
    "InvoiceNumber": "51402977",
    "CreatedTime": 1_760_000_000_000,
    "StoreID": "STR7188",
    "PosID": "POS956",
    "CustomerType": "PRIME",
    "PaymentMethod": "CARD",
    "DeliveryType": "TAKEAWAY",
    "City": None,
    "State": None,
    "PinCode": None,
    "ItemCode": "548",
    "ItemDescription": "Cloth Hangers",
    "ItemPrice": Decimal("2.5000"),
    "ItemQty": 2,
    "TotalValue": Decimal("5.0000"),
    "day": datetime.date(2025, 10, 9),
    "_partition": 0,
    "_offset": 0,
}
ALONE = {"STOREKEEPER_QUALITY_RECONCILE": "false"}  # there are no topics here
KINDS = {int: pa.int64(), Decimal: pa.decimal128(18, 4), datetime.date: pa.date32()}
SCHEMA = pa.schema([(name, KINDS.get(type(value), pa.string())) for name, value in LINE.items()])


def stage(run_dir: Path, **changes: Any) -> None:
    write_deltalake(
        run_dir / "delta" / "hadoop_export_staged",
        pa.Table.from_pylist([{**LINE, **changes}], schema=SCHEMA),
        mode="append",
        partition_by=["day"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )


@pytest.mark.long("test_gate.py publishes and holds back, test_running_platform.py publishes by this DAG")
def test_a_good_export_is_published_and_a_leaking_one_fails_the_run_until_a_good_one_follows(
    run_dag: RunDag, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    stage(run_dir)
    run = run_dag("check_hadoop_export", **ALONE)
    assert run.state == "success", run.log
    verdict = run.results["check"]
    assert (verdict["status"], verdict["rows"], verdict["new"]) == ("published", 1, True)

    stage(run_dir, _offset=1, ItemDescription="call 9889127612")
    leaking = run_dag("check_hadoop_export", **ALONE)
    again = run_dag("check_hadoop_export", **ALONE)
    for run in (leaking, again):
        assert run.state == "failed"
        assert "quarantined, not published" in run.log
        assert "ItemDescription doesn't hold a card or phone number. Failing rows: 1." in run.log
        assert "9889127612" not in run.log
    assert DeltaTable(run_dir / "delta" / "hadoop_export").count() == 1


def test_nothing_staged_is_no_failure(run_dag: RunDag) -> None:
    run = run_dag("check_hadoop_export", **ALONE)
    assert run.state == "success", run.log
    assert run.results["check"]["status"] == "nothing_staged"
