"""A field of a store's values, and the column that it becomes in the store's snapshots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ValueField:
    """A field of a store's values.

    `sql_type` is a Spark SQL type. A field of type `timestamp` holds epoch milliseconds, or a time in ISO 8601 with its
    zone. A row may lack a field that is `nullable`; DAG `check_stores` finds rows that lack any other, and checks the
    rest: that the field is `never_negative`, and that it `only_grows`, so a later record of its key never makes it
    less. `meaning` says what it holds, as a sentence for the catalogue.
    """

    name: str
    sql_type: str
    nullable: bool = False
    never_negative: bool = False
    only_grows: bool = False
    meaning: str = ""
