"""The oracle of the crashes finds what is missing and what is there twice: in outputs made without Spark or Kafka."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal

import pytest
from spark_apps.loyalty.topology import customer_records, group_purchases
from spark_apps.pos_fanout.topology import FanoutTopics, fan_out

from spark_apps.dead_letters import dead_letter
from spark_apps.records.money import PointsFactor
from spark_apps.records.poison import PoisonRecordError
from spark_apps.records.purchase import PrimePurchase, decode_purchase
from tests.faults.crashes.oracle import Difference, PosOracle
from tests.integration.sales import bad_sales, good_sales
from tests.integration.topics import Record

PURCHASES, CHANGELOG = "loyalty-purchases-repartition", "loyalty-rewards-changelog"
TOPICS = FanoutTopics("pos", "shipment", "hadoop-sink", PURCHASES)
OUTPUTS = ("shipment", "hadoop-sink", PURCHASES, "loyalty", CHANGELOG, "pos-dlq")


def invoices() -> list[Record]:
    sales = [*good_sales(80, seed=1), *bad_sales(8)]
    return [Record(number % 4, number // 4, key, value, {}) for number, (key, value) in enumerate(sales)]


def everything_that_follows(records: list[Record]) -> dict[str, list[Record]]:
    written: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        place = "pos", record.partition, record.offset, 0
        try:
            made = fan_out(record.key, record.value, *place[1:3], topics=TOPICS, max_record_bytes=262_144)
        except PoisonRecordError as error:
            made = [dead_letter(("pos-dlq", record.key, record.value), place, "pos_fanout", error)]
        for topic, key, value, headers, _ in made:
            written[topic].append(Record(0, len(written[topic]), key, value, dict(headers or ())))
    for topic, key, value, batch in loyalty(written[PURCHASES]):
        written[topic].append(Record(0, len(written[topic]), key, value, {"batch-id": b"%d" % batch}))
    return written


def loyalty(purchases: list[Record]) -> Iterator[tuple[str, bytes, bytes, int]]:
    totals: dict[str, tuple[int, int, int]] = {}
    decoded = [decode_purchase(record.key, record.value) for record in purchases]
    prime = [purchase for purchase in decoded if isinstance(purchase, PrimePurchase)]
    for batch, own in enumerate((prime[:20], prime[20:])):
        for group in group_purchases(own, PointsFactor(Decimal("0.02"))):
            units, count, last_ms = totals.get(group.card, (0, 0, 0))
            total = units + group.earned_units, count + group.invoice_count, max(last_ms, group.last_invoice_time_ms)
            totals[group.card] = total
            arguments = (group.card, *total, group.purchases)
            for record in customer_records(*arguments, loyalty_topic="loyalty", changelog_topic=CHANGELOG):
                yield *record, batch


def differences(written: dict[str, list[Record]]) -> list[Difference]:
    poison = set(bad_sales(8))
    oracle = PosOracle(invoices(), lambda key, value: (key, value) in poison)
    return [difference for difference in oracle.differences(written.__getitem__) if not difference.none]


def test_what_is_right_has_no_differences() -> None:
    assert differences(everything_that_follows(invoices())) == []


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_record_that_is_missing_is_found(output: str) -> None:
    written = everything_that_follows(invoices())
    assert written[output]
    del written[output][-1]
    (difference,) = differences(written)
    assert output.removeprefix("loyalty-rewards-") in difference.output
    assert difference.lost == 1


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_record_that_is_there_twice_is_found(output: str) -> None:
    written = everything_that_follows(invoices())
    written[output].append(written[output][-1])
    (difference,) = differences(written)
    assert output.removeprefix("loyalty-rewards-") in difference.output
    assert difference.doubled == 1


def test_a_purchase_that_is_counted_twice_is_found() -> None:
    twice = invoices()
    twice.append(next(record for record in twice if b'"PRIME"' in (record.value or b"")))
    assert {"changelog, rows", "loyalty"} <= {d.output for d in differences(everything_that_follows(twice))}


def test_a_difference_counts_what_is_missing_and_what_is_too_much() -> None:
    assert Difference.between("x", ["a", "b"], ["b", "b", "c"]) == Difference("x", lost=1, doubled=2)
