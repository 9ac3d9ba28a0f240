"""What the snapshots of a store must be: what its fields say, and what is declared beside that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.apps.registry import APPS
from storekeeper.apps.spec import StoreSpec, misfit
from storekeeper.quality.errors import StagedTableError
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.manifest import SnapshotManifest


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


def store_as_written(store: StoreSpec, manifest: SnapshotManifest) -> StoreSpec:
    """The store with the fields that a snapshot has columns of, and their types there.

    A schema may have got more fields since, and a column may be of a wider type than the schema's.

    Raises:
        StagedTableError: what is declared for the store is about a column that the snapshot doesn't have yet.
    """
    if not manifest.by_schema:
        return store
    written = replace(store, value_fields=tuple(_as_written(store, manifest)))
    declared = next((table for table in APPS[store.app].tables if table.name == store.name), None)
    if declared is not None and misfit(store, declared) is None and (why := misfit(written, declared)) is not None:
        msg = f"snapshot {manifest.delta_version} of {store.name} can't be checked as declared ({why}): take a new one"
        raise StagedTableError(msg)
    return written


def _as_written(store: StoreSpec, manifest: SnapshotManifest) -> Iterator[ValueField]:
    for item in store.value_fields:
        kind = manifest.columns.get(item.name)
        if kind is not None:
            is_text = kind == "string"
            yield replace(
                item,
                sql_type=kind,
                never_negative=item.never_negative and not is_text,
                only_grows=item.only_grows and not is_text,
            )


def growing_fields(store: StoreSpec, before: SnapshotManifest | None) -> list[str]:
    """The store's fields that only grow, without those that the earlier snapshot has no such column of."""
    growing = [item for item in store.value_fields if item.only_grows]
    if before is None or not before.by_schema:
        return [item.name for item in growing]
    return [item.name for item in growing if before.columns.get(item.name) == item.sql_type]


def _column(item: ValueField, declared: CheckedColumn | None) -> CheckedColumn:
    least: float | None = 0 if item.never_negative else None
    if declared is None:
        return CheckedColumn(item.name, item.sql_type, nullable=item.nullable, least=least)
    if declared.least is not None:
        least = declared.least if least is None else max(least, declared.least)
    return replace(declared, nullable=item.nullable and declared.nullable, least=least)
