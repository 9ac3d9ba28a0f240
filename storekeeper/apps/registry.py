"""All apps and their stores, by name. Free of Spark, and of the apps: each app is imported when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.apps.user_apps import check_distinct, imported_app, user_apps
from storekeeper.errors import ConfigurationError, UnknownStoreError

SHARED_DRIVER = "shared_driver"
"""The process that runs all on-demand apps as queries of one Spark session, and its lease."""


class Apps(Mapping[str, AppSpec]):
    """Apps by name, given as specs or as entries `<module>:<variable>`, which are imported when they are looked up."""

    def __init__(self, entries: Mapping[str, AppSpec | str]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> AppSpec:
        entry = self._entries[name]
        return imported_app(entry) if isinstance(entry, str) else entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


_POS: dict[str, AppSpec | str] = {
    "pos": "storekeeper.samples.pos:POS",
    "hadoop_export": "storekeeper.samples.hadoop_export.spec:HADOOP_EXPORT",
}
_ON_DEMAND: dict[str, AppSpec | str] = {
    "ticks": "storekeeper.samples.ticks:TICKS",
    "leaderboard": "storekeeper.samples.leaderboard:LEADERBOARD",
    "order_location": "storekeeper.samples.order_location:ORDER_LOCATION",
    "session_tracker": "storekeeper.samples.session_tracker:SESSION_TRACKER",
    "sales_windows": "storekeeper.samples.sales_windows:SALES_WINDOWS",
}
POS_APPS = Apps(_POS)
"""The apps of the tills: each has its own process."""
ON_DEMAND_APPS = Apps(_ON_DEMAND)
"""The smaller apps, which share a driver."""
_USER: dict[str, AppSpec | str] = {}
for _app in user_apps():
    check_distinct(_app, Apps({**_POS, **_USER, **_ON_DEMAND}), [SHARED_DRIVER])
    _USER[_app.name] = _app
USER_APPS = Apps(_USER)
"""The apps that `STOREKEEPER_OWN_APPS` names: each has its own process."""
KEPT_APPS = Apps({**_POS, **_USER})
"""The apps that always have their own process."""
APPS = Apps({**_POS, **_USER, **_ON_DEMAND})


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
    return tuple(ON_DEMAND_APPS) if program == SHARED_DRIVER else (program,)


def app_named(name: str) -> AppSpec:
    """The app of that name. One that isn't registered is named by its spec: `<module>:<variable>`.

    Its package is installed, or in the current folder.

    Raises:
        ConfigurationError: there is none.
    """
    if ":" in name:
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)
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
    if name not in stores():
        msg = f"there is no store {name[:140]!r}: choose one of {', '.join(stores())}"
        raise UnknownStoreError(msg)
    return stores()[name]


def store_definitions(apps: Iterable[AppSpec] = APPS.values()) -> str:
    """The stores of some apps, by default of all, in the format of a node's setting `STOREKEEPER_STORES`."""
    return ",".join(str(store.definition) for app in apps for store in app.stores)
