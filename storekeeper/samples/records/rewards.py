"""What prime customers earn: their purchases, totals and notifications."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Protocol

import msgspec

Points = Annotated[
    Decimal,
    msgspec.Meta(
        description="The points that the customer has earned, with four decimals.",
        extra={"sql": "decimal(18,4)", "never_negative": True, "only_grows": True},
    ),
]
NO_POINTS = Decimal("0.0000")


class PrimePurchase(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What remains of a prime customer's invoice: `amount` as the till wrote it, `earned` with four decimals."""

    invoice_number: str
    created_time_ms: int
    amount: float
    earned: Decimal


class Rewards(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "card": "CustomerCardNo",
        "total": "TotalLoyaltyPoints",
        "invoices": "InvoiceCount",
        "last_invoice_ms": "LastInvoiceTime",
    },
):
    """All that is known of a customer: a row of store `rewards`."""

    card: Annotated[str, msgspec.Meta(description="The number of the customer's loyalty card.")] = ""
    total: Points = NO_POINTS
    invoices: Annotated[
        int, msgspec.Meta(ge=0, description="How many invoices earned points.", extra={"only_grows": True})
    ] = 0
    last_invoice_ms: Annotated[
        int,
        msgspec.Meta(description="The time of the newest invoice.", extra={"sql": "timestamp", "only_grows": True}),
    ] = 0

    @staticmethod
    def with_purchase(card: str, rewards: Rewards, purchase: PrimePurchase) -> Rewards:
        """The rewards with one more purchase."""
        return Rewards(
            card,
            rewards.total + purchase.earned,
            rewards.invoices + 1,
            max(rewards.last_invoice_ms, purchase.created_time_ms),
        )


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
