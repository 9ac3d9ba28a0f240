"""Money and points as whole numbers of 1/10,000, so that a sum is exact and doesn't depend on its order."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

UNITS_PER_ONE = 10_000
_ONE = Decimal(1)


def to_units(amount: float) -> int:
    """The decimal number that `amount` was written as, in 1/10,000; further decimals round half away from zero."""
    cents = round(amount * 100)
    if cents / 100 == amount:  # division rounds correctly: so `amount` was written with at most two decimals
        return cents * 100
    return _rounded(Decimal(repr(amount)) * UNITS_PER_ONE)


def format_units(units: int) -> str:
    """`units` as a JSON number with four decimals: -5 is `-0.0005`."""
    if units < 0:
        return "-" + format_units(-units)
    whole, rest = divmod(units, UNITS_PER_ONE)
    return f"{whole}.{rest:04d}"


@dataclass(frozen=True, slots=True)
class PointsFactor:
    """How many points one unit of currency earns."""

    value: Decimal
    _units_per_cent: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        per_cent = self.value * (UNITS_PER_ONE // 100)
        object.__setattr__(self, "_units_per_cent", int(per_cent) if per_cent == per_cent.to_integral_value() else None)

    def earned_units(self, amount: float) -> int:
        """The points for `amount`, in 1/10,000 of a point; further decimals are rounded half away from zero."""
        per_cent = self._units_per_cent
        cents = round(amount * 100)
        if per_cent is not None and cents / 100 == amount:
            return cents * per_cent
        return _rounded(Decimal(repr(amount)) * self.value * UNITS_PER_ONE)


def _rounded(number: Decimal) -> int:
    return int(number.quantize(_ONE, rounding=ROUND_HALF_UP))
