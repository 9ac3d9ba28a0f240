"""What a store's values are, as far as its tables depend on it: their fields, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.errors import SerializationError
from storekeeper.schemas.column_fields import common_type
from storekeeper.schemas.registry import SchemaRegistry, registry_of
from storekeeper.serdes.json import json_fields
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import ReadFields
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.stores.versioned import value_of_version


@dataclass(frozen=True, slots=True)
class StoreValues:
    """The values of a store in one generation of its app.

    Attributes:
        fields: those that the app declares, by a struct or a schema.
        registry: of the schemas that wrote the values; None if they are JSON.
        versioned: whether they are versions, of which a deletion has no fields.
    """

    fields: Sequence[ValueField]
    registry: SchemaRegistry | None = None
    versioned: bool = False

    @property
    def evolve(self) -> bool:
        """Whether their fields may change within a generation: a registry lets a schema change compatibly."""
        return self.registry is not None

    def columns_of(self, manifest: SnapshotManifest) -> dict[str, str]:
        """The columns, SQL type by name, that a snapshot has of these values: the declared ones, or if the values
        evolve those that it was written with.
        """
        return dict(manifest.columns) if self.evolve else self._declared()

    def next_columns(self, manifest: SnapshotManifest) -> dict[str, str]:
        """The columns that the snapshot after this one has.

        None is lost: a field that the schema has no longer keeps its column, and one of another type gets a column that
        holds the values of both. Where two names differ in upper and lower case alone, the first has a column.
        """
        columns = self.columns_of(manifest)
        spelled = {name.lower(): name for name in columns}
        for name, kind in self._declared().items():
            if spelled.setdefault(name.lower(), name) == name:
                columns[name] = common_type([columns.get(name, kind), kind])
        return columns

    def reader(self) -> ReadFields:
        """A function that reads a value's fields. It raises if the registry doesn't answer."""
        read = json_fields if self.registry is None else _schema_fields(self.registry)
        return _version_fields(read) if self.versioned else read

    def _declared(self) -> dict[str, str]:
        return {item.name: item.sql_type.replace(" ", "") for item in self.fields}


def _version_fields(read: ReadFields) -> ReadFields:
    def read_version(stored: bytes) -> Mapping[str, Any]:
        value = value_of_version(stored)
        return {} if value is None else read(value)

    return read_version


def _schema_fields(registry: SchemaRegistry) -> ReadFields:
    from storekeeper.schemas.as_json import JsonView  # noqa: PLC0415 (needs the extra `registry`)

    view = JsonView(registry)

    def read(value: bytes) -> Mapping[str, Any]:
        try:
            return view.fields_of(value)
        except SerializationError:  # a foreign record
            return {}

    return read


def values_of(store: StoreSpec, settings: AppSettings) -> StoreValues:
    """The values of a store, read with the settings' schema registry if they are by schemas."""
    registry = registry_of(settings.kafka_properties) if store.by_schema else None
    return StoreValues(store.value_fields, registry, versioned=store.kind is ServedKind.VERSIONED)
