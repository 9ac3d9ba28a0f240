"""Real purchases, and the invoice that a till would have sent for each.

The purchases are the CDNOW data set, as shipped (see `data/ORIGIN.md`).

The data set has customer, day, number of CDs and dollar value. Everything else is derived from these and the row's
number by a hash, so that the same row always makes the same invoice, byte for byte:

- InvoiceNumber is 10,000,000 plus the row's number. The hash of the row gives the time of day, from 9 to 21 o'clock
  UTC, the till, the cashier and the way of payment.
- A customer has a home store and buys in it and in the four that follow it, so that one customer's invoices come from
  several stores and hence from several partitions. There are 200 stores.
- The hash of the customer decides who is a prime customer (about half), and gives the card number and the address.
  About 40 of 100 purchases are delivered home, with the address on the invoice.
- The older tills of every 20th store write PRIME, NONPRIME, HOME-DELIVERY and TAKEAWAY in small letters.
- The CDs are spread over one to four lines. All lines but the last take a round share of the mean price; the last one
  holds a single CD and what remains of the total, so that ItemPrice x ItemQty = TotalValue on each line and the lines
  sum up to TotalAmount, to the cent.
- Prices include no tax: TaxableAmount is the total, CGST and SGST are 2.5 % of it each, CESS is 0.125 %, rounded half
  up to the cent.

Cities are real; addresses are not, and no telephone number in India begins as the ones here do.
"""

from __future__ import annotations

import csv
import hashlib
import io
import lzma
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import orjson

_STORES = 200
_STORES_OF_A_CUSTOMER = 5
_OLD_TILLS_EVERY = 20
_OPENS_AT_HOUR = 9
_OPEN_MS = 12 * 3_600_000

_CITIES = (
    ("Pune", "Maharashtra", "411"),
    ("Mumbai", "Maharashtra", "400"),
    ("Bengaluru", "Karnataka", "560"),
    ("Chennai", "Tamil Nadu", "600"),
    ("Hyderabad", "Telangana", "500"),
    ("Kolkata", "West Bengal", "700"),
    ("Jaipur", "Rajasthan", "302"),
    ("Kochi", "Kerala", "682"),
    ("Lucknow", "Uttar Pradesh", "226"),
    ("Ahmedabad", "Gujarat", "380"),
)
_STREETS = ("Neem Lane", "Lake View Road", "Station Road", "Banyan Street", "Old Fort Road", "Temple Street")
_GENRES = ("Jazz", "Rock", "Classical", "Folk", "Electronic", "Soundtrack", "Blues", "Raga")
_PAYMENTS = ("CASH", "CARD", "UPI", "WALLET")
_DATA = Path(__file__).parent / "data" / "cdnow_purchases.csv.xz"


@dataclass(frozen=True, slots=True)
class Purchase:
    """One row of the data set. `row` counts from 0; `cents` is the dollar value, exact."""

    row: int
    customer: int
    day: date
    cds: int
    cents: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be published. `kind` says what is wrong with it; empty if it is good."""

    topic: str
    key: bytes | None
    value: bytes | None
    kind: str = ""


def load_purchases(limit: int | None = None) -> list[Purchase]:
    """The first `limit` purchases (None: all 69,659) in the order of the file: by customer, then by date."""
    text = lzma.decompress(_DATA.read_bytes()).decode("ascii")
    rows = list(csv.DictReader(io.StringIO(text)))
    return [_purchase(number, fields) for number, fields in enumerate(rows[:limit])]


def invoice_records(purchases: list[Purchase]) -> list[Record]:
    """The records of these purchases: the key is the store's id, the value JSON in UTF-8.

    They are in the order of CreatedTime, then of InvoiceNumber: the order of publishing.
    """
    invoices = sorted(map(invoice, purchases), key=lambda fields: (fields["CreatedTime"], fields["InvoiceNumber"]))
    return [Record("pos", fields["StoreID"].encode(), orjson.dumps(fields)) for fields in invoices]


def invoice(purchase: Purchase) -> dict[str, Any]:
    """The invoice of one purchase, with its fields in the order in which they are written."""
    draw, customer = _Draw(f"row {purchase.row}"), _Draw(f"customer {purchase.customer}")
    store = (customer.below(_STORES) + draw.below(_STORES_OF_A_CUSTOMER)) % _STORES
    prime, delivered = customer.below(2) == 0, draw.below(10) < 4
    lines = line_items(purchase.cds, purchase.cents, draw)
    fields = {
        "InvoiceNumber": str(10_000_000 + purchase.row),
        "CreatedTime": _created_time_ms(purchase, draw),
        "StoreID": f"STR{store + 1:04d}",
        "PosID": f"POS{draw.below(8) + 1:03d}",
        "CashierID": f"OAS{draw.below(60) + 1:03d}",
        "CustomerType": _as_till_writes("PRIME" if prime else "NONPRIME", store),
        "CustomerCardNo": card_number(purchase.customer),
        "TotalAmount": purchase.cents / 100,
        "NumberOfItems": len(lines),
        "PaymentMethod": _PAYMENTS[draw.below(len(_PAYMENTS))],
        "TaxableAmount": purchase.cents / 100,
        "CGST": _share_cents(purchase.cents, 25_000) / 100,
        "SGST": _share_cents(purchase.cents, 25_000) / 100,
        "CESS": _share_cents(purchase.cents, 1_250) / 100,
        "DeliveryType": _as_till_writes("HOME-DELIVERY" if delivered else "TAKEAWAY", store),
    }
    if delivered:
        fields["DeliveryAddress"] = _address(customer)
    return fields | {"InvoiceLineItems": lines}


def card_number(customer: int) -> str:
    """The ten digits of a customer's card: different for each customer, in no order."""
    # A prime step makes neighbours differ in most digits; 23,570 steps stay below ten digits and never meet.
    return str(4_000_000_000 + customer * 104_729)


def line_items(cds: int, cents: int, draw: _Draw) -> list[dict[str, Any]]:
    """Lines with `cds` pieces in total, whose values sum up to `cents` exactly."""
    if cds == 1:
        return [_line(1, cents, draw)]
    rest, remaining, lines = cds - 1, cents, []
    for left in range(min(rest, 1 + draw.below(3)), 0, -1):
        quantity = rest if left == 1 else 1 + draw.below(rest - left + 1)
        price = cents // cds * (100 - draw.below(40)) // 100
        lines.append(_line(quantity, price, draw))
        rest, remaining = rest - quantity, remaining - quantity * price
    return [*lines, _line(1, remaining, draw)]


class _Draw:
    """Pseudo-random numbers derived from a text alone, at most 32 digits' worth of them."""

    def __init__(self, text: str) -> None:
        self._number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=64).digest(), "big")

    def below(self, bound: int) -> int:
        """The next number from 0 to `bound`, exclusive."""
        self._number, drawn = divmod(self._number, bound)
        return drawn


def _line(quantity: int, price_cents: int, draw: _Draw) -> dict[str, Any]:
    return {
        "ItemCode": f"CD{draw.below(900) + 100}",
        "ItemDescription": f"Compact disc, {_GENRES[draw.below(len(_GENRES))].lower()}",
        "ItemPrice": price_cents / 100,
        "ItemQty": quantity,
        "TotalValue": quantity * price_cents / 100,
    }


def _created_time_ms(purchase: Purchase, draw: _Draw) -> int:
    opening = datetime.combine(purchase.day, time(_OPENS_AT_HOUR), UTC)
    return int(opening.timestamp()) * 1000 + draw.below(_OPEN_MS)


def _as_till_writes(word: str, store: int) -> str:
    return word.lower() if store % _OLD_TILLS_EVERY == 0 else word


def _share_cents(cents: int, millionths: int) -> int:
    return (cents * millionths + 500_000) // 1_000_000


def _address(customer: _Draw) -> dict[str, str]:
    city, state, pin_prefix = _CITIES[customer.below(len(_CITIES))]
    return {
        "AddressLine": f"{customer.below(400) + 1} {_STREETS[customer.below(len(_STREETS))]}",
        "City": city,
        "State": state,
        "PinCode": f"{pin_prefix}{customer.below(100):03d}",
        "ContactNumber": f"55501{customer.below(100_000):05d}",
    }


def _purchase(row: int, fields: dict[str, str]) -> Purchase:
    whole, _, fraction = fields["dollars"].partition(".")
    return Purchase(
        row=row,
        customer=int(fields["customer_id"]),
        day=datetime.strptime(fields["date"], "%Y%m%d").date(),  # noqa: DTZ007 (a calendar day, no instant)
        cds=int(fields["cds"]),
        cents=int(whole) * 100 + int(fraction.ljust(2, "0")),
    )
