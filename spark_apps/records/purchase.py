"""Purchases of prime customers, and the message to the customer about each."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

import msgspec


class PrimePurchase(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What remains of a prime customer's invoice: `amount` as the till wrote it, `earned` with four decimals."""

    invoice_number: str
    created_time_ms: int
    amount: float
    earned: Decimal


class HasTotal(Protocol):
    """Something that has a customer's total points."""

    @property
    def total(self) -> Decimal:
        """The points, with four decimals."""


class Notification(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "invoice_number": "InvoiceNumber",
        "card": "CustomerCardNo",
        "amount": "TotalAmount",
        "earned": "EarnedLoyaltyPoints",
        "total": "TotalLoyaltyPoints",
    },
):
    """A record of topic `loyalty`: what a purchase earned, and the running total including it."""

    invoice_number: str
    card: str
    amount: float
    earned: Decimal
    total: Decimal

    @staticmethod
    def of(card: str, purchase: PrimePurchase, rewards: HasTotal) -> Notification:
        """The notification of a purchase."""
        return Notification(purchase.invoice_number, card, purchase.amount, purchase.earned, rewards.total)
