from __future__ import annotations

from typing import Any

import orjson
import pytest

from harness.sales import sale, sale_bytes
from spark_apps.pos import POS, topology
from spark_apps.records.purchase import Notification
from storekeeper.apps.settings import AppSettings
from storekeeper.testkit import CrashStep
from storekeeper.testkit.fixtures import MakeDriver
from storekeeper.topology import StreamsBuilder
from tests.project.spark_apps.support import AppDriver, send, values


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology)


def sell(driver: AppDriver, *values: bytes | dict[str, Any] | None, key: bytes | None = b"STR7188") -> None:
    for value in values:
        driver.send("pos", key, value)
    driver.run()


def written(driver: AppDriver, topic: str) -> list[tuple[bytes, bytes]]:
    return [(record.key, record.value) for record in driver.read(topic)]


def notified(driver: AppDriver) -> list[Notification]:
    return [record.value for record in driver.read("loyalty")]


def test_a_home_delivery_is_a_shipment_of_the_same_bytes_and_lines(driver: AppDriver) -> None:
    value = sale_bytes(CustomerType="NONPRIME")
    sell(driver, value)
    assert written(driver, "shipment") == [(b"STR7188", value)]
    lines = written(driver, "hadoop-sink")
    assert [key for key, _ in lines] == [b"STR7188", b"STR7188"]
    assert [orjson.loads(line)["ItemCode"] for _, line in lines] == ["458", "283"]
    assert notified(driver) == []


@pytest.mark.parametrize(
    "changes", [{"DeliveryType": "TAKEAWAY"}, {"DeliveryType": "takeaway", "DeliveryAddress": ...}]
)
def test_what_is_taken_away_is_not_shipped(driver: AppDriver, changes: dict[str, Any]) -> None:
    sell(driver, sale_bytes(**changes))
    assert written(driver, "shipment") == []


def test_a_home_delivery_without_items_is_shipped_all_the_same(driver: AppDriver) -> None:
    sell(driver, sale_bytes(InvoiceLineItems=[], CustomerType="NonPrime"))
    assert len(written(driver, "shipment")) == 1
    assert written(driver, "hadoop-sink") == []


def test_each_purchase_tells_the_total_that_includes_it(driver: AppDriver) -> None:
    for number in range(3):
        driver.send("pos", "s", sale(InvoiceNumber=f"n{number}", CustomerType="Prime", TotalAmount=0.5 + number))
    driver.send("pos", "other", sale(InvoiceNumber="n3", TotalAmount=1, CustomerCardNo="7"))
    driver.run()
    totals = {(one.card, one.invoice_number, str(one.earned), str(one.total)) for one in notified(driver)}
    assert totals == {
        ("4629185211", "n0", "0.0100", "0.0100"),
        ("4629185211", "n1", "0.0300", "0.0400"),
        ("4629185211", "n2", "0.0500", "0.0900"),
        ("7", "n3", "0.0200", "0.0200"),
    }
    assert driver.raw("rewards")[b"7"] == (
        b'{"CustomerCardNo":"7","TotalLoyaltyPoints":0.0200,"InvoiceCount":1,"LastInvoiceTime":1595688900348}'
    )


def test_the_last_invoice_is_the_newest_by_its_own_time(driver: AppDriver) -> None:
    sell(driver, sale(CreatedTime=9), sale(CreatedTime=5))
    assert driver.values("rewards")["4629185211"]["LastInvoiceTime"] == 9


def test_poison_is_reported_and_nothing_of_it_is_written(driver: AppDriver) -> None:
    sell(driver, b"{}", None, sale(CustomerType="GOLD"))
    sell(driver, sale(), key=None)
    assert [reason for _, reason in driver.reasons()] == [
        "Object missing required field `InvoiceNumber`",
        "the value is null",
        "CustomerType is neither PRIME nor NONPRIME",
        "the key is null or empty",
    ]
    assert driver.dead_letters[0].record.value == b"{}"
    assert not any(map(driver.read, ("hadoop-sink", "shipment", "loyalty")))


def test_purchases_reach_their_customer_by_a_shuffle() -> None:
    streams = StreamsBuilder("pos")
    topology(streams, AppSettings())
    (repartition,) = streams.build().repartitions
    assert repartition.may_be_shuffle


def test_every_purchase_counts_once_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(POS)
    for step in (None, *CrashStep):
        if step is not None:
            driver.crash_at(step)
        for number in range(10):
            send(
                driver,
                "pos",
                f"s{number}",
                sale(InvoiceNumber=f"n{number}", TotalAmount=1, CustomerCardNo=f"{number % 3}"),
            )
        send(driver, "pos", "s", "poison")
        driver.run()
    assert {card: row["InvoiceCount"] for card, row in values(driver, "rewards").items()} == {"0": 16, "1": 12, "2": 12}
    assert (len(driver.read("loyalty")), len(driver.read("shipment")), len(driver.dead_letters)) == (40, 40, 4)
    assert len(driver.read("hadoop-sink")) == 80
    assert driver.read("loyalty") == []
