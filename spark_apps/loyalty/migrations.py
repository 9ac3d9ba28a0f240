"""Changes of the store `rewards` from version to version, each a function there and one back, run for every record.

1: key is the card; CustomerCardNo, TotalLoyaltyPoints (four decimals), InvoiceCount, LastInvoiceTime
2: key is the card; CustomerCardNo, Tier, TotalLoyaltyPointsCents, HundredthsOfCent (0 to 99), InvoiceCount,
   LastInvoiceTime
3: key is `<region>|<card>`; the value is that of version 2
4: stores `rewards-north`, `-east`, `-south` and `-west` in place of `rewards`; in each the key is the card again
5: store `rewards` again; the key is the card

Nothing needs the last two: they are there to be tried, and to be taken as a pattern.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from spark_apps.generations.migration import StoreMigration, StoreRecord
from spark_apps.loyalty.spec import REWARDS
from spark_apps.records.loyalty import rewards_value
from spark_apps.records.money import UNITS_PER_ONE
from spark_apps.spec import ValueField

_UNITS_PER_CENT = UNITS_PER_ONE // 100
_TIERS = ((10_000, "GOLD"), (1_000, "SILVER"))
"""From how many points on."""
_LOWEST_TIER = "BRONZE"
_REGIONS = ("north", "east", "south", "west")
_SEPARATOR = b"|"


class RewardsV1(msgspec.Struct, forbid_unknown_fields=True):
    """A value of version 1; any other field would be lost, so there may be none."""

    CustomerCardNo: str
    TotalLoyaltyPoints: Decimal
    InvoiceCount: int
    LastInvoiceTime: int

    @property
    def total_units(self) -> int:
        """The points in 1/10,000."""
        return int(self.TotalLoyaltyPoints * UNITS_PER_ONE)


class RewardsV2(msgspec.Struct, forbid_unknown_fields=True):
    """A value of version 2. The points are the cents and, not to lose any, the hundredths of a cent beyond them."""

    CustomerCardNo: str
    Tier: str
    TotalLoyaltyPointsCents: int
    HundredthsOfCent: int
    InvoiceCount: int
    LastInvoiceTime: int


_encode = msgspec.json.Encoder().encode
_decode_v2 = msgspec.json.Decoder(RewardsV2).decode
decode_v1 = msgspec.json.Decoder(RewardsV1).decode
"""The value of version 1 in such bytes. Raises `msgspec.MsgspecError`."""


def with_tier(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 1 to version 2."""
    old = decode_v1(value)
    units = old.total_units
    # Rounds down also below zero, so that the hundredths are never negative.
    cents, hundredths = divmod(units, _UNITS_PER_CENT)
    new = RewardsV2(old.CustomerCardNo, tier_of(units), cents, hundredths, old.InvoiceCount, old.LastInvoiceTime)
    return [(key, _encode(new))]


def without_tier(key: bytes, value: bytes) -> StoreRecord:
    """From version 2 back to version 1, to the byte."""
    new = _decode_v2(value)
    units = new.TotalLoyaltyPointsCents * _UNITS_PER_CENT + new.HundredthsOfCent
    return key, rewards_value(new.CustomerCardNo, units, new.InvoiceCount, new.LastInvoiceTime)


def by_region(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 2 to version 3: `4629185207` is from then on `west|4629185207`."""
    return [(region_of(key.decode()).encode() + _SEPARATOR + key, value)]


def from_region(key: bytes, value: bytes) -> StoreRecord:
    """From version 3 back to version 2."""
    _, _, card = key.partition(_SEPARATOR)
    return card, value


def without_region(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 3 to version 4: the store tells the region."""
    return [from_region(key, value)]


def with_region(key: bytes, value: bytes) -> StoreRecord:
    """From version 4 back to version 3."""
    return by_region(key, value)[0]


def store_of_region(key: bytes) -> str:
    """The store of version 4 that a key of version 3 leads to."""
    return regional_store(key.partition(_SEPARATOR)[0].decode())


def regional_store(region: str) -> str:
    """The store of a region's customers."""
    return f"{REWARDS.name}-{region}"


def as_it_is(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 4 to version 5: only the store is another."""
    return [(key, value)]


def as_it_was(key: bytes, value: bytes) -> StoreRecord:
    """From version 5 back to version 4."""
    return key, value


def tier_of(units: int) -> str:
    """The tier that so many points, in 1/10,000, belong to."""
    return next((tier for points, tier in _TIERS if units >= points * UNITS_PER_ONE), _LOWEST_TIER)


def region_of(card: str) -> str:
    """The region that issued a card, by the last digit but one of its number.

    Raises:
        ValueError: the card's number has none.
    """
    digits = card[-2:-1]
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError("a card's number must end in digits to tell its region")
    return _REGIONS[int(digits) % len(_REGIONS)]


_V2_FIELDS = (
    ValueField("CustomerCardNo", "string"),
    ValueField("Tier", "string"),
    ValueField("TotalLoyaltyPointsCents", "bigint", never_negative=True, only_grows=True),
    ValueField("HundredthsOfCent", "int"),
    ValueField("InvoiceCount", "bigint", never_negative=True, only_grows=True),
    ValueField("LastInvoiceTime", "timestamp", only_grows=True),
)

REWARDS_TIER = StoreMigration(
    name="rewards-tier",
    store=REWARDS.name,
    summary="Adds the customer's tier, and keeps points as whole cents instead of a decimal number.",
    to_version=2,
    convert=f"{__name__}:with_tier",
    revert=f"{__name__}:without_tier",
    value_fields=_V2_FIELDS,
)
REWARDS_BY_REGION = StoreMigration(
    name="rewards-by-region",
    store=REWARDS.name,
    summary="Puts the card's region in front of the key, so that a region's customers can be read as a range.",
    to_version=3,
    convert=f"{__name__}:by_region",
    revert=f"{__name__}:from_region",
    value_fields=_V2_FIELDS,
    changes_key=True,
)
REWARDS_SPLIT = StoreMigration(
    name="rewards-split",
    store=REWARDS.name,
    summary="Gives each region's customers a store of their own, in which the key is the card again.",
    to_version=4,
    convert=f"{__name__}:without_region",
    revert=f"{__name__}:with_region",
    value_fields=_V2_FIELDS,
    changes_key=True,
    stores=tuple(map(regional_store, _REGIONS)),
    route=f"{__name__}:store_of_region",
    offered=False,
)
REWARDS_MERGE = StoreMigration(
    name="rewards-merge",
    store=REWARDS.name,
    summary="Puts the customers of all regions into one store again.",
    to_version=5,
    convert=f"{__name__}:as_it_is",
    revert=f"{__name__}:as_it_was",
    value_fields=_V2_FIELDS,
    stores=(REWARDS.name,),
    offered=False,
)
MIGRATIONS = (REWARDS_TIER, REWARDS_BY_REGION, REWARDS_SPLIT, REWARDS_MERGE)
