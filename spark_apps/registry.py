"""All apps and their stores, by name. Free of Spark.

`APPS` run as long as the platform does. `ON_DEMAND_APPS` are there to be started: alone, or all in one process.
"""

from __future__ import annotations

import importlib

from spark_apps.hadoop_export.spec import HADOOP_EXPORT
from spark_apps.leaderboard.spec import LEADERBOARD
from spark_apps.loyalty.spec import LOYALTY
from spark_apps.order_location.spec import ORDER_LOCATION
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.sales_windows.spec import SALES_WINDOWS
from spark_apps.session_tracker.spec import SESSION_TRACKER
from spark_apps.spec import AppSpec, StoreSpec
from spark_apps.ticks.spec import TICKS
from state.errors import ConfigurationError, UnknownStoreError

APPS: dict[str, AppSpec] = {app.name: app for app in (POS_FANOUT, LOYALTY, HADOOP_EXPORT)}
STORES: dict[str, StoreSpec] = {store.name: store for app in APPS.values() for store in app.stores}

ON_DEMAND_APPS: dict[str, AppSpec] = {
    app.name: app for app in (TICKS, LEADERBOARD, ORDER_LOCATION, SESSION_TRACKER, SALES_WINDOWS)
}
ON_DEMAND_STORES: dict[str, StoreSpec] = {store.name: store for app in ON_DEMAND_APPS.values() for store in app.stores}
TOGETHER = "together"
"""The process that runs all on-demand apps, and its lease."""


def app_named(name: str) -> AppSpec:
    """The app of that name. One that isn't registered is named by its spec: `<module>:<variable>`.

    Raises:
        ConfigurationError: there is none.
    """
    if ":" in name:
        return _imported(name)
    apps = APPS | ON_DEMAND_APPS
    if name not in apps:
        msg = f"there is no app {name[:140]!r}: choose one of {', '.join(apps)}"
        raise ConfigurationError(msg)
    return apps[name]


def _imported(name: str) -> AppSpec:
    module, _, variable = name.partition(":")
    try:
        spec = getattr(importlib.import_module(module), variable)
    except (ImportError, ValueError, AttributeError) as error:
        msg = f"{name[:140]!r} can't be imported ({error}): it is <module>:<variable>, from the folder of the package"
        raise ConfigurationError(msg) from error
    if not isinstance(spec, AppSpec):
        msg = f"{name[:140]!r} is no AppSpec: name the variable that holds the app's spec"
        raise ConfigurationError(msg)
    return spec


def store_named(name: str) -> StoreSpec:
    """The store of that name.

    Raises:
        UnknownStoreError: no app keeps it.
    """
    stores = STORES | ON_DEMAND_STORES
    if name not in stores:
        msg = f"there is no store {name[:140]!r}: choose one of {', '.join(stores)}"
        raise UnknownStoreError(msg)
    return stores[name]


def store_definitions() -> str:
    """Every store of every app, as a node's setting `STOREKEEPER_STORES` wants them."""
    return ",".join(str(store.definition) for store in (STORES | ON_DEMAND_STORES).values())
