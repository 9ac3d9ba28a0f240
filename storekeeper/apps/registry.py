"""The apps that the configuration names, their stores and tables, and the process that runs each. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.named_apps import imported_app, make_importable, named_apps
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.errors import ConfigurationError, UnknownStoreError

SHARED_DRIVER = "shared_driver"
"""The process that runs the apps of `shared_apps` as queries of one Spark session, and its lease."""

_named = named_apps(reserved=SHARED_DRIVER)
APPS: Mapping[str, AppSpec] = dict(_named.apps)
"""All apps, by name."""
DRIVERS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in APPS if name not in _named.shared},
    **({SHARED_DRIVER: _named.shared} if _named.shared else {}),
}
"""The processes of apps, by name, each with the names of the apps that it runs."""


@cache
def stores() -> Mapping[str, StoreSpec]:
    """The stores of all apps, by name."""
    return {store.name: store for app in APPS.values() for store in app.stores}


@cache
def gated_tables() -> Mapping[str, CheckedTable]:
    """The tables of all apps that the quality gate publishes, by name."""
    return {table.name: table for app in APPS.values() for table in app.gated_tables}


def apps_of(program: str) -> tuple[str, ...]:
    """The names of the apps that run in a process: those of the shared driver, or the app of the same name."""
    return DRIVERS.get(program, (program,))


def driver_of(app: str) -> str:
    """The name of the process that runs an app."""
    return next((program for program, apps in DRIVERS.items() if app in apps), app)


def app_named(name: str) -> AppSpec:
    """The app of that name. One that the configuration doesn't name is named by its spec: `<module>:<variable>`.

    Its package is installed, or in the current folder.

    Raises:
        ConfigurationError: there is none.
    """
    if ":" in name:
        make_importable(Path.cwd())
        return imported_app(name)
    if name not in APPS:
        msg = f"there is no app {name[:140]!r}: {_choice(APPS, 'apps in storekeeper.toml names none')}"
        raise ConfigurationError(msg)
    return APPS[name]


def store_named(name: str) -> StoreSpec:
    """The store of that name.

    Raises:
        UnknownStoreError: no app keeps it.
    """
    if name not in stores():
        msg = f"there is no store {name[:140]!r}: {_choice(stores(), 'no app that storekeeper.toml names has one')}"
        raise UnknownStoreError(msg)
    return stores()[name]


def store_definitions(apps: Iterable[AppSpec] | None = None) -> str:
    """The stores of some apps, by default of all, in the format of a node's setting `STOREKEEPER_STORES`."""
    chosen = APPS.values() if apps is None else apps
    return ",".join(str(store.definition) for app in chosen for store in app.stores)


def _choice(names: Iterable[str], if_none: str) -> str:
    listed = ", ".join(names)
    return f"choose one of {listed}" if listed else if_none
