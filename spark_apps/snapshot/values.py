"""What a store's tables depend on, by the store's spec."""

from __future__ import annotations

from spark_apps.settings import AppSettings
from spark_apps.spec import StoreSpec
from state.schemas.registry import registry_of
from state.snapshots.store_values import StoreValues
from state.store_definitions import ServedKind


def values_of(store: StoreSpec, settings: AppSettings) -> StoreValues:
    """The values of a store, read with the settings' schema registry if they are by schemas."""
    registry = registry_of(settings.kafka_properties) if store.by_schema else None
    return StoreValues(store.value_fields, registry, versioned=store.kind is ServedKind.VERSIONED)
