"""The expectations on a store's snapshot, derived from the value fields of its spec.

No required field is missing, and no field is negative that must not be. For keys that were in the snapshot before, no
field that only grows has decreased.
"""

from __future__ import annotations

import great_expectations.expectations as gxe
from great_expectations.expectations import Expectation

from spark_apps.spec import StoreSpec

_FELL = "_fell"


def fell_column(name: str) -> str:
    """The name of the column that is 1 if a growing field is less than in the snapshot before, else 0."""
    return f"{name}{_FELL}"


def growing_fields(store: StoreSpec) -> list[str]:
    """The store's fields that only grow."""
    return [item.name for item in store.value_fields if item.only_grows]


def snapshot_expectations(store: StoreSpec) -> list[Expectation]:
    """The expectations on a frame of the value fields, and of `fell_column` of each growing one."""
    expectations: list[Expectation] = []
    for item in store.value_fields:
        if not item.nullable:
            expectations.append(
                gxe.ExpectColumnValuesToNotBeNull(column=item.name, notes=f"{item.name} must be there.")
            )
        if item.never_negative:
            note = f"{item.name} must not be negative."
            expectations.append(gxe.ExpectColumnValuesToBeBetween(column=item.name, min_value=0, notes=note))
    for name in growing_fields(store):
        note = f"{name} must not be less than in the snapshot before."
        expectations.append(gxe.ExpectColumnValuesToBeInSet(column=fell_column(name), value_set=[0], notes=note))
    return expectations
