from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import pytest
from airflow.sdk import Asset, Context

from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import UPDATED_TABLES, ChooseTablesOperator, TableOperator
from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.staged_rows import staged_table

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize("selected", ["all", "hadoop_export"])
def test_a_run_is_for_the_table_of_its_params_or_for_all(selected: str) -> None:
    choose = ChooseTablesOperator(names=["hadoop_export"], command=["check"], selected=selected)
    assert choose.execute(cast("Context", {})) == [["check", "hadoop_export"]]
    assert staged_table("hadoop_export").uri == delta_table("hadoop_export_staged").uri


@pytest.mark.parametrize(
    ("asset", "chosen"),
    [(staged_table("hadoop_export"), [["check", "hadoop_export"]]), (delta_table("other"), [])],
)
def test_a_run_that_assets_started_is_for_their_tables(asset: Asset, chosen: list[list[str]]) -> None:
    choose = ChooseTablesOperator(names=["hadoop_export"], command=["check"], selected="all")
    assert choose.execute(cast("Context", {"triggering_asset_events": {asset: []}})) == chosen


class Events:
    """Takes the assets that a task updates through an alias."""

    def __init__(self) -> None:
        self.added: list[Asset] = []

    def add(self, asset: Asset) -> None:
        self.added.append(asset)


@pytest.mark.parametrize(
    ("answer", "table", "updated"),
    [
        ({"published": True}, "", ["delta_orders"]),
        ({"published": True}, "bills", ["delta_bills"]),
        ({"rows": 3}, "", ["delta_orders"]),  # of a command that always writes
        ({"published": False}, "", []),
        ({"stores": {"orders": {}, "order-times": {}}}, "", ["delta_orders", "delta_order-times"]),
        ({"due": False}, "", []),  # its history alone went on
        ({"stores": {"orders": {"due": False}, "order-times": {"due": True}}}, "", ["delta_order-times"]),
    ],
)
def test_the_asset_is_updated_if_the_table_was(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], table: str, updated: list[str]
) -> None:
    monkeypatch.setattr(StorekeeperJobOperator, "on_over", lambda *_: answer)
    events: defaultdict[Any, Events] = defaultdict(Events)
    operator = TableOperator(task_id="check", arguments=["check", "orders"], table=table, outlets=[UPDATED_TABLES])
    assert operator.on_over(cast("Context", {"outlet_events": events}), {"job": "one"}) == answer
    assert [asset.name for asset in events[UPDATED_TABLES].added] == updated
