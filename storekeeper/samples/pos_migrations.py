"""Migrations of the store `rewards`, each with the topology that runs after it.

1: key is the card; CustomerCardNo, TotalLoyaltyPoints (four decimals), InvoiceCount, LastInvoiceTime
2: key is the card; CustomerCardNo, Tier, TotalLoyaltyPointsCents, HundredthsOfCent (0 to 99), InvoiceCount,
   LastInvoiceTime
3: key is `<region>|<card>`; the value is that of version 2
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.generations.migration import StoreMigration, StoreRecord
from storekeeper.samples.pos import prime_purchases
from storekeeper.samples.records.money import UNITS_PER_ONE
from storekeeper.samples.records.rewards import Notification, PrimePurchase, Rewards
from storekeeper.samples.records.topics import LOYALTY
from storekeeper.serdes.struct import StructSerde
from storekeeper.topology import Store, StreamsBuilder, with_key

_UNITS_PER_CENT = UNITS_PER_ONE // 100
_TIERS = ((10_000, "GOLD"), (1_000, "SILVER"))
"""Each tier with the points that it begins at."""
_LOWEST_TIER = "BRONZE"
_REGIONS = ("north", "east", "south", "west")
_NO_REGION = "other"


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
    """A row of version 2. The points are the cents and, not to lose any, the hundredths of a cent beyond them."""

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

    @staticmethod
    def with_purchase(key: str, rewards: TieredRewards, purchase: PrimePurchase) -> TieredRewards:
        """The rewards with one more purchase. The key is the card, or ends with it."""
        plain = Rewards(rewards.card, rewards.total, rewards.invoices, rewards.last_invoice_ms)
        return TieredRewards.of(Rewards.with_purchase(card_of(key), plain, purchase))


def with_tiers(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology from version 2 on: rewards with a tier."""
    _rewarded(streams, settings, by="card")


def by_region(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology from version 3 on: the key of a customer's rewards begins with the region."""
    _rewarded(streams, settings, by="region")


def _rewarded(streams: StreamsBuilder, settings: AppSettings, *, by: Literal["card", "region"]) -> None:
    purchases = prime_purchases(streams, settings)
    if by == "region":
        purchases = purchases.select_key(lambda card, _: regional_key(card))
    rewards = purchases.group_by_key().aggregate(
        TieredRewards,
        with_key(TieredRewards.with_purchase),
        store=Store("rewards", TieredRewards, profile="read_heavy"),
    )
    notified = purchases.join(rewards, with_key(notification))
    notified.select_key(lambda _, note: note.card).to(LOYALTY)


def notification(key: str, purchase: PrimePurchase, rewards: TieredRewards) -> Notification:
    """The notification of a purchase, whose key is the card, or ends with it."""
    return Notification.of(card_of(key), purchase, rewards)


def tiered_row(key: bytes, value: bytes) -> list[StoreRecord]:
    """Converts a row of version 1 to version 2."""
    return [(key, _TIERED.serialize(TieredRewards.of(_PLAIN.deserialize(value))))]


def regional_row(key: bytes, value: bytes) -> list[StoreRecord]:
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
    return next((tier for points, tier in _TIERS if units >= points * UNITS_PER_ONE), _LOWEST_TIER)


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
    describe=f"{__name__}:{with_tiers.__name__}",
)
REWARDS_BY_REGION = StoreMigration(
    name="rewards-by-region",
    store="rewards",
    summary="Puts the card's region in front of the key, so that a region's customers can be read as a range.",
    to_version=3,
    convert=f"{__name__}:{regional_row.__name__}",
    describe=f"{__name__}:{by_region.__name__}",
    changes_key=True,
)
MIGRATIONS = (REWARDS_TIER, REWARDS_BY_REGION)
