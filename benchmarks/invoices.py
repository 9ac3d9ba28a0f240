"""Invoices for the benchmarks: 700 bytes each, half of prime customers, two in five delivered home, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import Producer

FIRST_TIME_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class InvoiceRecord:
    """A record of topic `pos`."""

    key: bytes
    value: bytes
    prime: bool


def invoice_records(count: int, customers: int, *, seed: int = 1) -> Iterator[InvoiceRecord]:
    """Invoices of random customers. The same arguments give the same bytes."""
    rng = random.Random(seed)
    for number in range(count):
        invoice = _invoice(rng, number, customers)
        yield InvoiceRecord(invoice["StoreID"].encode(), orjson.dumps(invoice), invoice["CustomerType"] == "PRIME")


def publish(producer: Producer, topic: str, records: list[InvoiceRecord]) -> None:
    """Hands records to a producer and waits until the broker has them."""
    for record in records:
        while True:
            try:
                producer.produce(topic, record.value, record.key)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    producer.flush()


def _invoice(rng: random.Random, number: int, customers: int) -> dict[str, Any]:
    lines = [_line(rng, position) for position in range(rng.randint(1, 5))]
    total = sum(line["TotalValue"] for line in lines)
    card = rng.randrange(customers)
    prime, home = rng.random() < 0.5, rng.random() < 0.4
    invoice = {
        "InvoiceNumber": str(10_000_000 + number),
        "CreatedTime": FIRST_TIME_MS + number * 10,
        "StoreID": f"STR{rng.randint(1, 500):04}",
        "PosID": f"POS{rng.randint(1, 99):03}",
        "CashierID": f"OAS{rng.randint(1, 99):03}",
        "CustomerType": "PRIME" if prime else "NONPRIME",
        "CustomerCardNo": f"{card:010}",
        "TotalAmount": total,
        "NumberOfItems": len(lines),
        "PaymentMethod": "CARD" if rng.random() < 0.5 else "CASH",
        "TaxableAmount": total,
        "CGST": total * 0.025,
        "SGST": total * 0.025,
        "CESS": total * 0.00125,
        "DeliveryType": "HOME-DELIVERY" if home else "TAKEAWAY",
        "InvoiceLineItems": lines,
    }
    if home:
        invoice["DeliveryAddress"] = {
            "AddressLine": f"{rng.randint(1, 999)} Main Street",
            "City": "Pune",
            "State": "MH",
            "PinCode": f"4110{rng.randint(0, 99):02}",
            "ContactNumber": f"98{rng.randint(0, 99_999_999):08}",
        }
    return invoice


def _line(rng: random.Random, position: int) -> dict[str, Any]:
    quantity, price = rng.randint(1, 3), rng.randint(100, 5000)
    return {
        "ItemCode": str(rng.randint(100, 999)),
        "ItemDescription": f"Item {position}",
        "ItemPrice": float(price),
        "ItemQty": quantity,
        "TotalValue": float(price * quantity),
    }
