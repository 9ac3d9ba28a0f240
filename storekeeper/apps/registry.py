"""The apps that the configuration names, their stores and tables, and the process that runs each. Free of Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.settings import ProjectSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.errors import ConfigurationError, UnknownStoreError

_INSTALLED = Path(__file__).resolve().parents[2]
"""The folder on the path that Storekeeper was loaded from."""


@dataclass(frozen=True, slots=True)
class NamedApps:
    """The apps that the configuration names. `shared` names those that share a driver."""

    apps: Mapping[str, AppSpec]
    shared: tuple[str, ...]


def named_apps(*, reserved: str) -> NamedApps:
    """The apps that the configuration names. `reserved` is a name that no app can have.

    Raises:
        ConfigurationError: one can't be imported, or is not an app; or two have the same name, store or table.
    """
    settings = ProjectSettings()
    make_importable(settings.project_dir)
    by_name: dict[str, AppSpec] = {}
    for name in dict.fromkeys((*settings.apps, *settings.shared_apps)):
        app = imported_app(name)
        check_distinct(app, by_name, reserved)
        by_name[app.name] = app
    both = sorted({*settings.apps} & {*settings.shared_apps})
    if both:
        msg = f"{both[0]} is in apps and in shared_apps: an app has a driver of its own, or shares one"
        raise ConfigurationError(msg)
    return NamedApps(by_name, tuple(imported_app(name).name for name in dict.fromkeys(settings.shared_apps)))


def make_importable(folder: Path | None) -> None:
    """Lets this process import the packages in a folder.

    They come after the standard library, and before what is installed where Storekeeper is: a project's own packages
    count more than others of their names.
    """
    if folder is not None and str(folder) not in sys.path:
        at = (index for index, path in enumerate(sys.path) if Path(path).resolve() == _INSTALLED)
        sys.path.insert(next(at, len(sys.path)), str(folder))


def imported_app(name: str) -> AppSpec:
    """The app whose spec is `<module>:<variable>`.

    Raises:
        ConfigurationError: it can't be imported, or is not an app.
    """
    module, _, variable = name.partition(":")
    try:
        spec = getattr(importlib.import_module(module), variable)
    except Exception as error:  # whatever somebody's module raises
        raise ConfigurationError(
            f"{name[:140]!r} can't be imported ({type(error).__name__}: {error}): an app is named <module>:<variable>, "
            "and its package is installed or in the folder of `project_dir`"
        ) from error
    if not isinstance(spec, AppSpec):
        raise ConfigurationError(f"{name[:140]!r} is not an AppSpec: name the variable that holds the app's spec")
    return spec


def check_distinct(app: AppSpec, others: Mapping[str, AppSpec], reserved: str) -> None:
    """Checks that the names of an app, and of its stores and tables, are unique. `others` are all other apps, by name;
    no app can have the name `reserved`.

    Raises:
        ConfigurationError: another app has the same name, or another store or table.
    """
    if app.name in others or app.name == reserved:
        raise ConfigurationError(f"`apps` has an app {app.name}, and there is another of that name: rename one of them")
    for what, names_of in (("have a store", _stores), ("write a table", _folders)):
        owners = {name: other.name for other in others.values() for name in names_of(other)}
        for name in names_of(app):
            if name in owners:
                raise ConfigurationError(f"apps {owners[name]} and {app.name} both {what} {name}: rename one of them")
            owners[name] = app.name


def _stores(app: AppSpec) -> list[str]:
    return [store.name for store in app.stores]


def _folders(app: AppSpec) -> list[str]:
    """The Delta tables of an app."""
    gated = (name for table in app.gated_tables for name in (table.name, table.staged_name))
    return [*gated, *(name for store in app.stores for name in (store.table_name, store.history_name))]


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
