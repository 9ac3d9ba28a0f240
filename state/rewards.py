"""What prime customers have earned. Key: CustomerCardNo; since version 3 `<region>|<CustomerCardNo>`.

| version | value                                                                                                      |
|---------|------------------------------------------------------------------------------------------------------------|
| 1       | CustomerCardNo, TotalLoyaltyPoints (four decimals), InvoiceCount, LastInvoiceTime                          |
| 2, 3    | CustomerCardNo, Tier, TotalLoyaltyPointsCents, HundredthsOfCent (0 to 99), InvoiceCount, LastInvoiceTime   |
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from storekeeper import Store, StoreMigration, StructSerde

_UNITS_PER_POINT = 10_000
_UNITS_PER_CENT = _UNITS_PER_POINT // 100
_TIERS = ((10_000, "GOLD"), (1_000, "SILVER"))
"""Each tier with the points that it begins at."""
_LOWEST_TIER = "BRONZE"
_REGIONS = ("north", "east", "south", "west")
_NO_REGION = "other"

Points = Annotated[
    Decimal,
    msgspec.Meta(
        description="The points that the customer has earned, with four decimals.",
        extra={"sql": "decimal(18,4)", "never_negative": True, "only_grows": True},
    ),
]
NO_POINTS = Decimal("0.0000")


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
    """All that is known of a customer."""

    card: Annotated[str, msgspec.Meta(description="The number of the customer's loyalty card.")] = ""
    total: Points = NO_POINTS
    invoices: Annotated[
        int, msgspec.Meta(ge=0, description="How many invoices earned points.", extra={"only_grows": True})
    ] = 0
    last_invoice_ms: Annotated[
        int,
        msgspec.Meta(description="The time of the newest invoice.", extra={"sql": "timestamp", "only_grows": True}),
    ] = 0


class TieredRewards(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "card": "CustomerCardNo",
        "tier": "Tier",
        "cents": "TotalLoyaltyPointsCents",
        "hundredths": "HundredthsOfCent",
        "invoices": "InvoiceCount",
        "last_invoice_ms": "LastInvoiceTime",
    },
):
    """A row since version 2. The points are the cents and, not to lose any, the hundredths of a cent beyond them."""

    card: str = ""
    tier: str = _LOWEST_TIER
    cents: Annotated[int, msgspec.Meta(extra={"never_negative": True, "only_grows": True})] = 0
    hundredths: Annotated[int, msgspec.Meta(extra={"sql": "int"})] = 0
    invoices: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})] = 0
    last_invoice_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp", "only_grows": True})] = 0

    @property
    def total(self) -> Decimal:
        """The points, with four decimals."""
        return Decimal(self.cents * _UNITS_PER_CENT + self.hundredths).scaleb(-4)

    @staticmethod
    def of(rewards: Rewards) -> TieredRewards:
        """The row of version 2 for one of version 1."""
        units = int(rewards.total.scaleb(4))
        # Rounds down also below zero, so that the hundredths are never negative.
        cents, hundredths = divmod(units, _UNITS_PER_CENT)
        return TieredRewards(rewards.card, tier_of(units), cents, hundredths, rewards.invoices, rewards.last_invoice_ms)


REWARDS = Store("rewards", Rewards, profile="read_heavy")
TIERED_REWARDS = Store("rewards", TieredRewards, profile="read_heavy")
"""The store since version 2."""


def tiered_row(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Converts a row of version 1 to version 2."""
    return [(key, _TIERED.serialize(TieredRewards.of(_PLAIN.deserialize(value))))]


def regional_row(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Converts a row of version 2 to version 3: key `4629185207` becomes `west|4629185207`."""
    return [(regional_key(key.decode()).encode(), value)]


def regional_key(card: str) -> str:
    """The key of a card's rewards in version 3."""
    return f"{region_of(card)}|{card}"


def card_of(key: str) -> str:
    """The card in a key of any version."""
    return key.rpartition("|")[2]


def tier_of(units: int) -> str:
    """The tier of a number of points, in 1/10,000."""
    return next((tier for points, tier in _TIERS if units >= points * _UNITS_PER_POINT), _LOWEST_TIER)


def region_of(card: str) -> str:
    """The region that issued a card, by the second to last digit of its number."""
    digits = card[-2:-1]
    return _REGIONS[int(digits) % len(_REGIONS)] if digits.isascii() and digits.isdecimal() else _NO_REGION


_PLAIN = StructSerde(Rewards)
_TIERED = StructSerde(TieredRewards)

REWARDS_TIER = StoreMigration(
    name="rewards-tier",
    store="rewards",
    summary="Adds the customer's tier, and keeps points as whole cents instead of a decimal number.",
    to_version=2,
    convert=f"{__name__}:{tiered_row.__name__}",
    describe="spark_apps.pos:with_tiers",
)
REWARDS_BY_REGION = StoreMigration(
    name="rewards-by-region",
    store="rewards",
    summary="Puts the card's region in front of the key, so that a region's customers can be read as a range.",
    to_version=3,
    convert=f"{__name__}:{regional_row.__name__}",
    describe="spark_apps.pos:by_region",
    changes_key=True,
)
MIGRATIONS = (REWARDS_TIER, REWARDS_BY_REGION)
