"""A table that somebody's own app declares, gated with real Delta."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition, Leaks, WithTable
from storekeeper.clock import ManualClock
from storekeeper.quality.errors import ReleaseRefusedError, ValidationError
from storekeeper.quality.gate import Batch
from storekeeper.quality.quarantine import Decision, Quarantine
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import TableGate
from storekeeper.quality.verdict import Status, Verdict
from tests.local_tables import local_table

pytestmark = pytest.mark.spark

CLOCK = ManualClock(now_ms=1_760_000_000_000)
DAY = datetime.date(2026, 1, 1)
ORDERS = CheckedTable(
    "orders",
    columns=(
        CheckedColumn("id", "string", leaks=Leaks.CODE),
        CheckedColumn("status", "string", allowed=("open", "paid"), drift=True),
        CheckedColumn("amount", "bigint", least=1, most=1000),
        CheckedColumn("paid", "bigint", nullable=True),
        CheckedColumn("day", "date"),
    ),
    unique=("id",),
    partition_by=("day",),
    conditions=(Condition("Nobody pays more than the amount.", "{paid} <= {amount}"),),
    reconcile=(WithTable("bills", group_by=("day",), sum="amount"),),
)
SCHEMA = pa.schema([("id", pa.string()), ("status", pa.string()), ("amount", pa.int64()), ("paid", pa.int64()),
                    ("day", pa.date32())])  # fmt: skip


def order(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"o-{number}", "status": "open", "amount": 10, "paid": None, "day": DAY, **changes}


def stage(settings: QualitySettings, *rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> None:
    write_deltalake(
        local_table(settings, ORDERS.staged_name),
        pa.Table.from_pylist(list(rows), schema=schema),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def decide(gate: TableGate) -> Verdict:
    batch = gate.pending()
    assert batch is not None
    return gate.decide(batch)


def published(settings: QualitySettings) -> list[str]:
    table = DeltaTable(local_table(settings, "orders"))
    return sorted(table.scan(columns=["id"]).read_all()["id"].to_pylist())


@pytest.fixture
def gate(settings: QualitySettings, spark: SparkSession) -> TableGate:
    return TableGate(ORDERS, settings, CLOCK, lambda: spark)


def test_a_red_row_is_quarantined_and_released_by_a_person_and_readers_see_good_versions_only(
    gate: TableGate, settings: QualitySettings
) -> None:
    stage(settings, order(1), order(2, status="paid", paid=10))
    verdict = decide(gate)
    assert (verdict.table, verdict.status, verdict.reasons) == ("orders", Status.PUBLISHED, ())
    table = DeltaTable(local_table(settings, "orders"))
    assert tuple(field.name for field in table.schema().fields) == ORDERS.published_columns
    assert table.metadata().partition_columns == ["day"]
    assert (settings.data_docs_dir("orders") / "index.html").is_file()

    stage(settings, order(3), order(4, amount=2000))
    red = decide(gate)
    assert (red.status, red.reasons) == (Status.QUARANTINED, ("amount is from 1 to 1000. Failing rows: 1.",))
    assert published(settings) == ["o-1", "o-2"]
    assert DeltaTable(local_table(settings, "orders")).version() == 0

    released = Quarantine("orders", gate, settings, CLOCK).release("1-1", Decision("meera", "large", ("values",)))
    assert (released.table, released.by) == ("orders", "meera")
    assert published(settings) == ["o-1", "o-2", "o-3", "o-4"]


def test_each_rule_sees_its_own_breach_and_shares_are_compared_with_the_good_batches_before(
    gate: TableGate, settings: QualitySettings
) -> None:
    stage(settings, *(order(number) for number in range(600)))
    assert decide(gate).profile == {"status": {"open": 600}}
    stage(
        settings,
        order(1, day=DAY + datetime.timedelta(days=1)),  # a copy nevertheless, for the key does not name the day
        order(602, id="9889127612"),
        order(603, status="OPEN"),
        order(604, amount=0),
        order(605, paid=11),
        order(606, amount=None),
        *(order(number, status="paid") for number in range(607, 1200)),
    )
    *breaches, drift = decide(gate).reasons
    assert drift.startswith("status is distributed as in the batches before")
    assert breaches == [
        "id doesn't hold a card or phone number. Failing rows: 1.",
        "status is one of open|paid. Failing rows: 1.",
        "amount is always there. Failing rows: 1.",
        "amount is from 1 to 1000. Failing rows: 1.",
        "Nobody pays more than the amount. Failing rows: 1.",
        "Each row is there once, by id. Failing rows: 1.",
    ]


def test_a_column_of_another_type_is_named_and_never_accepted(gate: TableGate, settings: QualitySettings) -> None:
    wrong = SCHEMA.set(2, pa.field("amount", pa.int32()))
    stage(settings, order(1), schema=wrong)
    assert decide(gate).reasons == ("amount should be bigint and is int.",)
    with pytest.raises(ReleaseRefusedError, match="columns can't be accepted"):
        Quarantine("orders", gate, settings, CLOCK).release("0-0", Decision("meera", "why not", ("columns",)))


def test_what_would_be_published_is_compared_with_another_table(spark: SparkSession, settings: QualitySettings) -> None:
    settings = settings.model_copy(update={"quality_reconcile": True})
    gate = TableGate(ORDERS, settings, CLOCK, lambda: spark)
    stage(settings, order(1))
    assert decide(gate).reasons == ("The batch can be compared with table bills.",)
    bills = {"day": [DAY, DAY, DAY + datetime.timedelta(days=1)], "amount": pa.array([10, 10, 5], pa.int64())}
    write_deltalake(local_table(settings, "bills"), pa.table(bills))
    stage(settings, order(2), order(3))
    assert decide(gate).reasons == ()
    stage(settings, order(4), order(5))  # alone they would be right: published rows count too
    assert decide(gate).reasons == (
        "There are as many rows as in table bills for each day. Failing rows: 2.",
        "The sum of amount equals that of table bills for each day; each failing row is a group. Failing rows: 1.",
    )


@pytest.mark.long("test_checkpoint.py has the hook")
def test_the_hook_is_told_each_verdict_and_changes_none(spark: SparkSession, settings: QualitySettings) -> None:
    verdicts: list[Mapping[str, Any]] = []

    def hook(verdict: Mapping[str, Any]) -> None:
        verdicts.append(verdict)
        raise RuntimeError("no network")

    gate = TableGate(replace(ORDERS, notify=hook, partition_by=()), settings, CLOCK, lambda: spark)
    stage(settings, order(1))
    assert decide(gate).passed
    assert DeltaTable(local_table(settings, "orders")).metadata().partition_columns == []
    stage(settings, order(2, amount=0))
    assert not decide(gate).passed
    gate.check_again(Batch(1, 1), lambda _: None)
    assert [(verdict["table"], verdict["status"]) for verdict in verdicts] == [
        ("orders", "published"),
        ("orders", "quarantined"),
    ]


def test_a_condition_that_is_no_sql_decides_nothing(spark: SparkSession, settings: QualitySettings) -> None:
    wrong = replace(ORDERS, conditions=(Condition("x", "{paid} is small"),))
    gate = TableGate(wrong, settings, CLOCK, lambda: spark)
    stage(settings, order(1))
    with pytest.raises(ValidationError, match=r"condition '\{paid\} is small\' of table orders"):
        decide(gate)
    assert gate.pending() is not None
