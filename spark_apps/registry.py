"""All apps and their stores, by name. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterable

from spark_apps.apps.leaderboard import LEADERBOARD
from spark_apps.apps.order_location import ORDER_LOCATION
from spark_apps.apps.pos import POS
from spark_apps.apps.sales_windows import SALES_WINDOWS
from spark_apps.apps.session_tracker import SESSION_TRACKER
from spark_apps.apps.ticks import TICKS
from spark_apps.hadoop_export.spec import HADOOP_EXPORT
from spark_apps.own_apps import check_distinct, imported_app, own_apps
from spark_apps.spec import AppSpec, StoreSpec
from state.errors import ConfigurationError, UnknownStoreError

SHARED_DRIVER = "shared_driver"
"""The process that runs all on-demand apps as queries of one Spark session, and its lease."""

POS_APPS: dict[str, AppSpec] = {app.name: app for app in (POS, HADOOP_EXPORT)}
"""The apps of the tills: each has its own process."""
ON_DEMAND_APPS: dict[str, AppSpec] = {
    app.name: app for app in (TICKS, LEADERBOARD, ORDER_LOCATION, SESSION_TRACKER, SALES_WINDOWS)
}
"""The smaller apps, which share a driver."""
_OWN = own_apps()
check_distinct(_OWN, [*POS_APPS.values(), *ON_DEMAND_APPS.values()], [SHARED_DRIVER])
OWN_APPS: dict[str, AppSpec] = {app.name: app for app in _OWN}
"""The apps that `STOREKEEPER_OWN_APPS` names: each has its own process."""

KEPT_APPS: dict[str, AppSpec] = {**POS_APPS, **OWN_APPS}
"""The apps that always have their own process."""
APPS: dict[str, AppSpec] = {**KEPT_APPS, **ON_DEMAND_APPS}
STORES: dict[str, StoreSpec] = {store.name: store for app in APPS.values() for store in app.stores}


def apps_of(program: str) -> tuple[str, ...]:
    """The names of the apps that run in a process: those of the shared driver, or the app of the same name."""
    return tuple(ON_DEMAND_APPS) if program == SHARED_DRIVER else (program,)


def app_named(name: str) -> AppSpec:
    """The app of that name. One that isn't registered is named by its spec: `<module>:<variable>`.

    Raises:
        ConfigurationError: there is none.
    """
    if ":" in name:
        return imported_app(name)
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


def store_definitions(apps: Iterable[AppSpec] = APPS.values()) -> str:
    """The stores of some apps, by default of all, in the format of a node's setting `STOREKEEPER_STORES`."""
    return ",".join(str(store.definition) for app in apps for store in app.stores)
