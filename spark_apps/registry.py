"""All apps and their stores, by name. Free of Spark."""

from __future__ import annotations

from spark_apps.hadoop_export.spec import HADOOP_EXPORT
from spark_apps.loyalty.spec import LOYALTY
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.spec import AppSpec, StoreSpec
from state.errors import ConfigurationError, UnknownStoreError

APPS: dict[str, AppSpec] = {app.name: app for app in (POS_FANOUT, LOYALTY, HADOOP_EXPORT)}
STORES: dict[str, StoreSpec] = {store.name: store for app in APPS.values() for store in app.stores}


def app_named(name: str) -> AppSpec:
    """The app of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in APPS:
        msg = f"there is no app {name[:140]!r}: choose one of {', '.join(APPS)}"
        raise ConfigurationError(msg)
    return APPS[name]


def store_named(name: str) -> StoreSpec:
    """The store of that name.

    Raises:
        UnknownStoreError: no app keeps it.
    """
    if name not in STORES:
        msg = f"there is no store {name[:140]!r}: choose one of {', '.join(STORES)}"
        raise UnknownStoreError(msg)
    return STORES[name]
