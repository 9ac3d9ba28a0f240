from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_apps.loyalty.topology import (
    CustomerRecord,
    customer_records,
    group_purchases,
)
from spark_apps.records.money import PointsFactor
from spark_apps.records.purchase import PrimePurchase

FACTOR = PointsFactor(Decimal("0.02"))


purchases = st.lists(
    st.builds(
        PrimePurchase,
        st.sampled_from(["A", "B", "ü"]),
        st.integers(0, 5),
        st.integers(0, 2),
        st.integers(0, 10**6),
        st.text(max_size=3).map(lambda text: text.encode(errors="replace").decode()),
        st.integers(-(10**9), 10**9).map(lambda cents: cents / 100),
    ),
    unique_by=lambda purchase: (purchase.partition, purchase.offset),
    max_size=30,
)


def records_of(batches: list[list[PrimePurchase]]) -> list[CustomerRecord]:
    """What the app writes for batches: the sums between the steps are Spark's part."""
    totals: dict[str, tuple[int, int, int]] = {}
    written: list[CustomerRecord] = []
    for batch in batches:
        for group in group_purchases(batch, FACTOR):
            units, count, last = totals.get(group.card, (0, 0, 0))
            sums = units + group.earned_units, count + group.invoice_count, max(last, group.last_invoice_time_ms)
            totals[group.card] = sums
            written += customer_records(
                group.card, *sums, group.purchases, loyalty_topic="loyalty", changelog_topic="changelog"
            )
    return written


@given(st.lists(purchases, max_size=4))
def test_running_totals_are_cumulative_in_the_order_of_writing(batches: list[list[PrimePurchase]]) -> None:
    running: dict[str, Decimal] = {}
    for record in records_of(batches):
        value = json.loads(record.value, parse_float=Decimal)
        card = value["CustomerCardNo"]
        assert record.key == card.encode()
        if record.topic == "loyalty":
            running[card] = running.get(card, Decimal(0)) + value["EarnedLoyaltyPoints"]
        assert value["TotalLoyaltyPoints"] == running[card]


@given(st.lists(purchases, max_size=4))
def test_the_newest_changelog_entry_holds_everything(batches: list[list[PrimePurchase]]) -> None:
    entries = {
        record.key.decode(): json.loads(record.value, parse_float=Decimal)
        for record in records_of(batches)
        if record.topic == "changelog"
    }
    everything = [purchase for batch in batches for purchase in batch]
    for card in {purchase.card for purchase in everything}:
        own = [purchase for purchase in everything if purchase.card == card]
        assert entries[card]["TotalLoyaltyPoints"] * 10_000 == sum(
            FACTOR.earned_units(purchase.amount) for purchase in own
        )
        assert entries[card]["InvoiceCount"] == len(own)
        assert entries[card]["LastInvoiceTime"] == max(purchase.created_time_ms for purchase in own)
    assert len(entries) == len({purchase.card for purchase in everything})


@given(purchases, st.randoms())
def test_a_batch_gives_the_same_bytes_in_whatever_order_it_arrives(batch: list[PrimePurchase], random: Any) -> None:
    shuffled = list(batch)
    random.shuffle(shuffled)
    assert sorted(records_of([batch]), key=lambda r: r.key) == sorted(records_of([shuffled]), key=lambda r: r.key)


def test_time_orders_a_batch_before_its_place_in_the_topic() -> None:
    batch = [
        PrimePurchase("A", 20, 0, 1, "third", 50.0),
        PrimePurchase("A", 10, 1, 5, "second", 5.0),
        PrimePurchase("A", 10, 0, 9, "first", 0.5),
    ]
    values = [json.loads(record.value) for record in records_of([batch]) if record.topic == "loyalty"]
    assert [value["InvoiceNumber"] for value in values] == ["first", "second", "third"]
    assert [value["TotalLoyaltyPoints"] for value in values] == [0.01, 0.11, 1.11]
