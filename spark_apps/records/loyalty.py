"""What the loyalty app writes: notifications to customers and the changelog of the rewards store."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from spark_apps.records.money import format_units

_text = msgspec.json.Encoder().encode


class Purchase(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What remains of a prime customer's invoice until its notification: `amount` as the till wrote it."""

    invoice_number: str
    amount: float
    earned_units: int


def notification(card: str, purchase: Purchase, total_units: int) -> bytes:
    """The value of a record of topic `loyalty`: what this purchase earned and the running total including it."""
    return b"".join(
        (
            b'{"InvoiceNumber":',
            _text(purchase.invoice_number),
            b',"CustomerCardNo":',
            _text(card),
            b',"TotalAmount":',
            _text(purchase.amount),
            f',"EarnedLoyaltyPoints":{format_units(purchase.earned_units)}'.encode(),
            f',"TotalLoyaltyPoints":{format_units(total_units)}}}'.encode(),
        )
    )


def notifications(card: str, purchases: Iterable[Purchase], total_after_units: int) -> list[bytes]:
    """One notification a purchase, in their order, when all of them together lead to `total_after_units`."""
    listed = list(purchases)
    running = total_after_units - sum(purchase.earned_units for purchase in listed)
    values = []
    for purchase in listed:
        running += purchase.earned_units
        values.append(notification(card, purchase, running))
    return values


def rewards_value(card: str, total_units: int, invoice_count: int, last_invoice_time_ms: int) -> bytes:
    """The value of a record of the rewards store's changelog: all that is known of a customer."""
    total = format_units(total_units)
    tail = f',"TotalLoyaltyPoints":{total},"InvoiceCount":{invoice_count},"LastInvoiceTime":{last_invoice_time_ms}}}'
    return b'{"CustomerCardNo":' + _text(card) + tail.encode()
