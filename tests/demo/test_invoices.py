"""The invoices that the real purchases become."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pytest

from demo.invoices import Purchase, Record, card_number, invoice_records, load_purchases


@pytest.fixture(scope="module")
def purchases() -> list[Purchase]:
    return load_purchases()


@pytest.fixture(scope="module")
def records(purchases: list[Purchase]) -> list[Record]:
    return invoice_records(purchases)


@pytest.fixture(scope="module")
def invoices(records: list[Record]) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"", parse_float=Decimal) for record in records]


def test_all_purchases_are_there(purchases: list[Purchase]) -> None:
    assert len(purchases) == 69_659
    assert len({purchase.customer for purchase in purchases}) == 23_570
    assert sum(purchase.cents for purchase in purchases) == 250_031_563
    assert [purchase.row for purchase in load_purchases(3)] == [0, 1, 2]


def test_they_are_the_same_bytes_every_time(records: list[Record]) -> None:
    digest = hashlib.sha256()
    for record in records:
        digest.update((record.key or b"") + b"\0" + (record.value or b"") + b"\n")
    assert digest.hexdigest() == "a0297c9e86fe2530c3a14a8d27d4d9f993f2411fab88e7f9c285c159f2cf61a6"


def test_a_slice_of_the_purchases_makes_the_same_invoices(records: list[Record]) -> None:
    assert set(invoice_records(load_purchases(500))) <= set(records)


def test_amounts_are_exact_to_the_cent(purchases: list[Purchase], invoices: list[dict[str, Any]]) -> None:
    cents = {str(10_000_000 + purchase.row): purchase for purchase in purchases}
    for invoice in invoices:
        purchase, lines = cents[invoice["InvoiceNumber"]], invoice["InvoiceLineItems"]
        assert invoice["TotalAmount"] * 100 == purchase.cents
        assert sum(line["TotalValue"] for line in lines) == invoice["TotalAmount"]
        assert all(line["ItemPrice"] * line["ItemQty"] == line["TotalValue"] for line in lines)
        assert sum(line["ItemQty"] for line in lines) == purchase.cds
        assert all(line["ItemPrice"] >= 0 and line["ItemQty"] > 0 for line in lines)
        assert invoice["NumberOfItems"] == len(lines)


def test_they_are_ordered_by_time_and_their_numbers_differ(invoices: list[dict[str, Any]]) -> None:
    times = [invoice["CreatedTime"] for invoice in invoices]
    assert times == sorted(times)
    assert len({invoice["InvoiceNumber"] for invoice in invoices}) == len(invoices)


def test_about_half_is_prime_and_two_fifths_are_delivered(invoices: list[dict[str, Any]]) -> None:
    prime = [invoice for invoice in invoices if invoice["CustomerType"].upper() == "PRIME"]
    delivered = [invoice for invoice in invoices if invoice["DeliveryType"].upper() == "HOME-DELIVERY"]
    assert 0.45 < len(prime) / len(invoices) < 0.55
    assert 0.38 < len(delivered) / len(invoices) < 0.42
    assert len([invoice for invoice in invoices if "DeliveryAddress" in invoice]) == len(delivered)
    assert all("DeliveryAddress" in invoice for invoice in delivered)


def test_a_customer_is_prime_or_not_and_buys_in_several_stores(invoices: list[dict[str, Any]]) -> None:
    kinds, stores = defaultdict(set), defaultdict(set)
    for invoice in invoices:
        kinds[invoice["CustomerCardNo"]].add(invoice["CustomerType"].upper())
        stores[invoice["CustomerCardNo"]].add(invoice["StoreID"])
    assert {len(kind) for kind in kinds.values()} == {1}
    assert max(len(of_customer) for of_customer in stores.values()) == 5


def test_words_come_in_both_cases(invoices: list[dict[str, Any]]) -> None:
    assert {invoice["CustomerType"] for invoice in invoices} == {"PRIME", "NONPRIME", "prime", "nonprime"}
    assert {invoice["DeliveryType"] for invoice in invoices} == {
        *("HOME-DELIVERY", "TAKEAWAY"),
        *("home-delivery", "takeaway"),
    }


def test_the_key_is_the_store(records: list[Record], invoices: list[dict[str, Any]]) -> None:
    assert [(record.key or b"").decode() for record in records] == [invoice["StoreID"] for invoice in invoices]


def test_cards_have_ten_digits_and_differ() -> None:
    cards = {card_number(customer) for customer in range(1, 23_571)}
    assert len(cards) == 23_570
    assert {len(card) for card in cards} == {10}
