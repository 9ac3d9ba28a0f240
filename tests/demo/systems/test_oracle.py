"""The oracle and the systems' topologies agree, wherever batches end."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from demo.comparison import TopicRecord
from demo.invoices import invoice_records, load_purchases
from demo.systems.events import system_records
from demo.systems.oracle import Expected, compare_systems, expect, of_the_last_days
from harness.project_apps import SYSTEM_APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.changelog.partitioner import partition_for
from storekeeper.topology import TopologyTestDriver

PARTITIONS = 4
DAY_MS = 24 * 3_600_000
Logs = dict[str, list[TopicRecord]]


@pytest.fixture(scope="module")
def logs() -> Logs:
    """The topics as the demo fills them, by partition and offset."""
    placed: dict[tuple[str, int], list[TopicRecord]] = defaultdict(list)
    for record in (*system_records(), *invoice_records(load_purchases(3000))):
        partition = partition_for(record.key or b"", PARTITIONS)
        log = placed[record.topic, partition]
        log.append(TopicRecord(partition, len(log), record.key, record.value))
    found: Logs = defaultdict(list)
    for (topic, _), log in sorted(placed.items()):
        found[topic] += log
    return found


def created_ms(record: TopicRecord) -> int:
    return int(json.loads(record.value or b"")["CreatedTime"])


def first_batch(logs: Logs, topic: str) -> list[TopicRecord]:
    """Those records that come in the first of two batches. One partition of `pos` is four days behind the others."""
    if topic != "pos":
        return [record for record in logs[topic] if record.offset < 60 * record.partition]
    end_ms = max(map(created_ms, logs[topic]))
    return [
        record for record in logs[topic] if created_ms(record) < end_ms - (6 if record.partition == 0 else 2) * DAY_MS
    ]


def stores(logs: Logs, settings: AppSettings) -> dict[str, dict[Any, dict[str, Any]]]:
    """The rows of all systems' stores, as JSON tells them."""
    found = {}
    for app in SYSTEM_APPS.values():
        assert app.describe is not None
        topology = described(app.name, app.describe, settings)
        driver = TopologyTestDriver(topology, dict.fromkeys(app.sources(settings), PARTITIONS))
        for is_first in (True, False):
            for topic in app.sources(settings):
                early = {(record.partition, record.offset) for record in first_batch(logs, topic)}
                for record in logs[topic]:
                    if ((record.partition, record.offset) in early) == is_first:
                        driver.append_bytes(topic, record.key, record.value, partition=record.partition)
            driver.run()
        for spec in (spec for sub in topology.sub_topologies for spec in sub.stores):
            found[spec.name] = {
                key: json.loads(spec.value_serde.serialize(value), parse_float=Decimal)
                for key, value in driver.rows(spec.name)
            }
    return found


def held(found: dict[str, dict[Any, dict[str, Any]]]) -> Expected:
    """The rows as the oracle tells them."""

    def orders(store: str) -> dict[Any, Any]:
        return {key: (row["Status"], row["UpdatedTime"]) for key, row in found[store].items()}

    def windows(store: str) -> dict[Any, Any]:
        rows = {key[:2]: (row["Sales"], row["Quantity"], row["Amount"]) for key, row in found[store].items()}
        return of_the_last_days(rows)

    return Expected(
        prices={key: row["Price"] for key, row in found["prices"].items()},
        players={
            key: (row["HighScore"], row["GamesPlayed"], row["TotalScore"]) for key, row in found["players"].items()
        },
        products={key: row["Name"] for key, row in found["products"].items()},
        order_locations=orders("order-locations"),
        orders=orders("orders"),
        sessions={tuple(key): row["EventCount"] for key, row in found["user-sessions"].items()},
        sales=windows("sales"),
        sales_hopping=windows("sales-hopping"),
    )


def test_the_oracle_tells_what_the_topologies_make(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = expect(logs.__getitem__)
    assert compare_systems(expected, held(stores(logs, AppSettings()))) == []
    assert len(expected.sales) > 10
    monkeypatch.setattr("spark_apps.sales_windows.GRACE", timedelta(minutes=10))
    again = AppSettings(state_memory_mb=64)  # a topology is described once for each settings
    too_late = compare_systems(expected, held(stores(logs, again)))
    assert {difference.check for difference in too_late} == {
        "sales by the nodes", "sales hopping by the nodes",
    }  # fmt: skip


def _expected(**rows: dict[Any, Any]) -> Expected:
    return Expected(**({field.name: {} for field in fields(Expected)} | rows))


def test_equal_stores_do_not_differ() -> None:
    stores = _expected(players={"ann": (7, 1, 7)})
    assert compare_systems(stores, replace(stores)) == []


def test_a_wrong_row_a_missing_one_and_one_too_many_are_named() -> None:
    must = _expected(sales={"0": 1, "1": 1}, prices={"TCS": 1})
    found = _expected(sales={"0": 2, "1": 1}, orders={"order-1": "PLACED"})
    assert [str(difference) for difference in compare_systems(must, found, "node b")] == [
        "prices by node b: TCS: expected 1, found None",
        "orders by node b: order-1: expected None, found PLACED",
        "sales by node b: 0: expected 1, found 2",
    ]
