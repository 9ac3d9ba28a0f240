"""What the snapshots of a store must be: what its fields say, and what is declared beside that."""

from __future__ import annotations

from dataclasses import replace

from spark_apps.checked_table import CheckedColumn, CheckedTable
from spark_apps.registry import APPS
from spark_apps.spec import StoreSpec, ValueField, misfit


def table_of(store: StoreSpec) -> CheckedTable:
    """The declaration of a store's snapshots, in the generation that `store` is of.

    A field must be there unless it is nullable, and is at least 0 if it is never negative. A declared column adds to
    that. What is declared for other rows than those of this generation is left out.
    """
    declared = next((table for table in APPS[store.app].tables if table.name == store.name), None)
    if declared is None or misfit(store, declared) is not None:
        declared = CheckedTable(store.name, ())
    columns = tuple(_column(item, declared.column(item.name)) for item in store.value_fields)
    return replace(declared, columns=columns)


def growing_fields(store: StoreSpec) -> list[str]:
    """The store's fields that only grow."""
    return [item.name for item in store.value_fields if item.only_grows]


def _column(item: ValueField, declared: CheckedColumn | None) -> CheckedColumn:
    least: float | None = 0 if item.never_negative else None
    if declared is None:
        return CheckedColumn(item.name, item.sql_type, nullable=item.nullable, least=least)
    if declared.least is not None:
        least = declared.least if least is None else max(least, declared.least)
    return replace(declared, nullable=item.nullable and declared.nullable, least=least)
