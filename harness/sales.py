"""Invoices as the tills write them: one, or a day's of them, from a seed."""

from __future__ import annotations

import random
from typing import Any

import orjson

_STORES = [f"STR{number}" for number in range(12)]
_CITIES = ["Pune", "Shivapuri", "Üsküdar"]


def sale(**changes: Any) -> dict[str, Any]:
    """A prime customer's home delivery of two items; `changes` replace fields, and those that are `...` go missing."""
    invoice: dict[str, Any] = {
        "InvoiceNumber": "51402977",
        "CreatedTime": 1_595_688_900_348,
        "StoreID": "STR7188",
        "PosID": "POS956",
        "CashierID": "OAS134",
        "CustomerType": "PRIME",
        "CustomerCardNo": "4629185211",
        "TotalAmount": 11114.5,
        "NumberOfItems": 2,
        "PaymentMethod": "CARD",
        "TaxableAmount": 11114.5,
        "CGST": 277.8625,
        "SGST": 277.8625,
        "CESS": 13.893125,
        "DeliveryType": "HOME-DELIVERY",
        "DeliveryAddress": {
            "AddressLine": "444-1842 Something Street",
            "City": "Shivapuri",
            "State": "Madhya Pradesh",
            "PinCode": "561012",
            "ContactNumber": "7762014053",
        },
        "InvoiceLineItems": [
            {
                "ItemCode": "458",
                "ItemDescription": "Wine glass",
                "ItemPrice": 1644.5,
                "ItemQty": 1,
                "TotalValue": 1644.5,
            },
            {"ItemCode": "283", "ItemDescription": "Chair", "ItemPrice": 4735.0, "ItemQty": 2, "TotalValue": 9470.0},
        ],
    }
    return {name: value for name, value in (invoice | changes).items() if value is not ...}


def sale_bytes(**changes: Any) -> bytes:
    """`sale` as a record's value."""
    return orjson.dumps(sale(**changes))


def good_sales(count: int, seed: int) -> list[tuple[bytes, bytes]]:
    """Records (key, value) of invoices: few customers, each in many stores, with odd cents, refunds and any case."""
    rng = random.Random(seed)
    return [_record(_sale(rng, f"{seed}-{number}")) for number in range(count)]


def _sale(rng: random.Random, number: str) -> dict[str, Any]:
    home = rng.random() < 0.4
    lines = [_line(rng) for _ in range(rng.randint(0, 4))]
    address = sale()["DeliveryAddress"] | {"City": rng.choice(_CITIES), "ContactNumber": f"98{rng.randrange(10**8):08}"}
    return sale(
        InvoiceNumber=number,
        CreatedTime=1_595_600_000_000 + rng.randrange(3 * 86_400_000),
        StoreID=rng.choice(_STORES),
        CustomerType=rng.choice(["PRIME", "prime", "NONPRIME", "NonPrime"]),
        CustomerCardNo=f"46291852{rng.randrange(30):02}",
        TotalAmount=rng.choice([rng.randrange(-5_000, 900_000) / 100, rng.randrange(9000), 0.1 + 0.2]),
        DeliveryType=rng.choice(["HOME-DELIVERY", "Home-Delivery"]) if home else "TAKEAWAY",
        DeliveryAddress=address if home else ...,
        NumberOfItems=len(lines),
        InvoiceLineItems=lines,
    )


def _line(rng: random.Random) -> dict[str, Any]:
    price, quantity = rng.randrange(1, 500_000) / 100, rng.randint(1, 3)
    return {
        "ItemCode": str(rng.randrange(1000)),
        "ItemDescription": rng.choice(["Chair", "Wine glass", "Löffel", 'Screen 24"']),
        "ItemPrice": price,
        "ItemQty": quantity,
        "TotalValue": round(price * quantity, 2),
    }


def _record(invoice: dict[str, Any]) -> tuple[bytes, bytes]:
    return invoice["StoreID"].encode(), orjson.dumps(invoice)
