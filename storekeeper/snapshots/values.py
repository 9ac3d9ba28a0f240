"""What a store's tables depend on, by the store's spec."""

from __future__ import annotations

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.schemas.registry import registry_of
from storekeeper.snapshots.store_values import StoreValues
from storekeeper.stores.store_definitions import ServedKind


def values_of(store: StoreSpec, settings: AppSettings) -> StoreValues:
    """The values of a store, read with the settings' schema registry if they are by schemas."""
    registry = registry_of(settings.kafka_properties) if store.by_schema else None
    return StoreValues(store.value_fields, registry, versioned=store.kind is ServedKind.VERSIONED)
