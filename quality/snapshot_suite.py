"""What must be true of a store's snapshot, from the fields of its values alone.

Every field that a row owes is there; what is counted or summed is never negative; and of a key that was in the snapshot
before, nothing that only grows has become less.
"""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations import Expectation

from spark_apps.spec import StoreSpec

GROWING = frozenset(
    {
        *("TotalLoyaltyPoints", "InvoiceCount", "LastInvoiceTime"),
        *("HighScore", "GamesPlayed", "TotalScore", "LastPlayed"),
        *("EventCount", "LateRecords", "Sales", "Quantity"),
    }
)
"""Fields that a key's later record never makes less."""

NEVER_NEGATIVE = GROWING - {"HighScore", "TotalScore"}
_FELL = "_fell"


def fell_column(name: str) -> str:
    """The column that says by 1 or 0 whether a growing field is less than in the snapshot before."""
    return f"{name}{_FELL}"


def growing_fields(store: StoreSpec) -> list[str]:
    """The store's fields that only grow."""
    return [item.name for item in store.value_fields if item.name in GROWING]


def snapshot_expectations(store: StoreSpec) -> list[Expectation]:
    """What a frame of the value fields, and `fell_column` of each growing one, must be."""
    expectations: list[Expectation] = []
    for item in store.value_fields:
        if not item.nullable:
            expectations.append(gxe.ExpectColumnValuesToNotBeNull(column=item.name, notes=f"{item.name} is there."))
        if item.name in NEVER_NEGATIVE and item.sql_type != "timestamp":
            note = f"{item.name} isn't negative."
            expectations.append(gxe.ExpectColumnValuesToBeBetween(column=item.name, min_value=0, notes=note))
    for name in growing_fields(store):
        note = f"{name} is not less than in the snapshot before."
        expectations.append(gxe.ExpectColumnValuesToBeInSet(column=fell_column(name), value_set=[0], notes=note))
    return expectations
