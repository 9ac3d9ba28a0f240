"""Apps that aren't part of Storekeeper: their specs, named by the environment. Free of Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping

from storekeeper.apps.own_apps_settings import OwnAppsSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.errors import ConfigurationError


def make_importable() -> None:
    """Lets this process import the packages in `own_apps_dir`: last on the path, so that they shadow no others."""
    folder = OwnAppsSettings().own_apps_dir
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))


def user_apps() -> tuple[AppSpec, ...]:
    """The apps that the environment names.

    Raises:
        ConfigurationError: one can't be imported, or is not an app.
    """
    make_importable()
    return tuple(map(imported_app, dict.fromkeys(OwnAppsSettings().own_apps)))


def imported_app(name: str) -> AppSpec:
    """The app whose spec is `<module>:<variable>`.

    Raises:
        ConfigurationError: it can't be imported, or is not an app.
    """
    module, _, variable = name.partition(":")
    try:
        spec = getattr(importlib.import_module(module), variable)
    except Exception as error:  # whatever somebody's module raises
        msg = (
            f"{name[:140]!r} can't be imported ({type(error).__name__}: {error}): an app is named <module>:<variable>, "
            "and its package is installed or in the folder of STOREKEEPER_OWN_APPS_DIR"
        )
        raise ConfigurationError(msg) from error
    if not isinstance(spec, AppSpec):
        msg = f"{name[:140]!r} is not an AppSpec: name the variable that holds the app's spec"
        raise ConfigurationError(msg)
    return spec


def check_distinct(app: AppSpec, others: Mapping[str, AppSpec], reserved: Collection[str]) -> None:
    """Checks that the names of an own app, and of its stores and tables, are unique.

    Args:
        app: the own app.
        others: all other apps, by name.
        reserved: more names that an app can't have.

    Raises:
        ConfigurationError: another app has the same name, or another store or table.
    """
    if app.name in others or app.name in reserved:
        msg = f"STOREKEEPER_OWN_APPS has an app {app.name}, and there is another of that name: rename yours"
        raise ConfigurationError(msg)
    for what, names_of in (("have a store", _stores), ("write a table", _folders)):
        owners = {name: other.name for other in others.values() for name in names_of(other)}
        for name in names_of(app):
            if name in owners:
                msg = f"apps {owners[name]} and {app.name} both {what} {name}: rename one of them"
                raise ConfigurationError(msg)
            owners[name] = app.name


def _stores(app: AppSpec) -> list[str]:
    return [store.name for store in app.stores]


def _folders(app: AppSpec) -> list[str]:
    """The Delta tables of an app."""
    gated = (name for table in app.gated_tables for name in (table.name, table.staged_name))
    return [*gated, *(store.table_name for store in app.stores)]
