from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import msgspec
import orjson
import pytest
from spark_apps.loyalty.topology import customer_records, group_purchases
from spark_apps.pos_fanout.topology import FanoutTopics, fan_out

from spark_apps.apps.pos import topology
from spark_apps.records.money import PointsFactor
from spark_apps.records.poison import PoisonRecordError
from spark_apps.records.purchase import PrimePurchase, decode_purchase
from spark_apps.records.rewards import Notification
from spark_apps.settings import AppSettings
from state.topology import StreamsBuilder
from tests.spark_apps.apps.support import AppDriver
from tests.spark_apps.records.sales import sale, sale_bytes


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


def invoices(seed: int, count: int) -> list[bytes]:
    chance = random.Random(seed)
    values = []
    for number in range(count):
        changes: dict[str, Any] = {
            "InvoiceNumber": f"n{number}",
            "StoreID": chance.choice(["STR1", "STR22", "card 4629185211"]),
            "CustomerCardNo": chance.choice(["4629185211", "77", "ü"]),
            "CustomerType": chance.choice(["PRIME", "prime", "NONPRIME", "gold"]),
            "DeliveryType": chance.choice(["HOME-DELIVERY", "TAKEAWAY"]),
            "TotalAmount": chance.choice([chance.randrange(10**6) / 100, chance.random() * 1000, 3]),
            "CreatedTime": chance.randrange(10**12),
            "PaymentMethod": chance.choice(["CARD", "call 7762014053"]),
        }
        values.append(sale_bytes(**changes))
    return values


def test_outputs_and_rows_are_those_of_the_hand_written_apps(driver: AppDriver) -> None:
    topics = FanoutTopics("pos", "shipment", "hadoop-sink", "purchases")
    expected: dict[str, list[tuple[bytes | None, bytes | None]]] = {"shipment": [], "hadoop-sink": [], "loyalty": []}
    rows: dict[bytes, bytes] = {}
    totals: dict[str, tuple[int, int, int]] = {}
    poison = 0
    for offset, value in enumerate(invoices(3, 400)):
        driver.send("pos", "till", value, partition=0)
        try:
            records = fan_out(b"till", value, 0, offset, topics=topics, max_record_bytes=100_000)
        except PoisonRecordError:
            poison += 1
            continue
        for topic, key, line, _, _ in records:
            if topic != "purchases":
                expected[topic].append((key, line))
                continue
            purchase = decode_purchase(key, line)
            assert isinstance(purchase, PrimePurchase)
            (group,) = group_purchases([purchase], PointsFactor(Decimal("0.02")))
            units, count, last = totals.get(group.card, (0, 0, 0))
            sums = units + group.earned_units, count + 1, max(last, group.last_invoice_time_ms)
            totals[group.card] = sums
            loyalty, changelog = customer_records(
                group.card, *sums, group.purchases, loyalty_topic="loyalty", changelog_topic="changelog"
            )
            expected["loyalty"].append((loyalty.key, loyalty.value))
            rows[changelog.key] = changelog.value
    driver.run()
    assert len(driver.reasons()) == poison != 0
    for topic in ("shipment", "hadoop-sink"):
        assert written(driver, topic) == expected[topic] != []
    encode = msgspec.json.Encoder(decimal_format="number").encode
    found = [(record.key.encode(), encode(record.value)) for record in driver.read("loyalty")]
    assert sorted(found) == sorted(expected["loyalty"])  # cards lie in several partitions
    for card in {key for key, _ in found}:
        assert [pair for pair in found if pair[0] == card] == [pair for pair in expected["loyalty"] if pair[0] == card]
    assert driver.raw("rewards") == rows != {}
