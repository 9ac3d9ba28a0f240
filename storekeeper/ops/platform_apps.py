"""The apps of a platform, in a file: the control process and `status` load no code of an app.

It also has the stores of apps that have ever run here and that the configuration doesn't name any more, until they are
retired: nodes serve them, and nobody can know them from code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import msgspec
import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import StorageError
from storekeeper.generations.status import AppFacts
from storekeeper.whole_files import write_whole

FILE = "apps.json"
"""The file in a run directory. The command that writes supervisor's configuration writes it."""


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A store: its app, and its definition as the setting `stores` has it."""

    app: str
    definition: str


@dataclass(frozen=True, slots=True)
class PlatformApps:
    """What the apps of a platform have.

    Attributes:
        drivers: the processes of apps, each with the names of the apps that it runs.
        apps: each app by name.
        stores: their stores, which there are snapshots of.
        tables: the tables that the quality gate publishes.
        topologies: the apps that are topologies.
        removed: the stores of apps that the configuration doesn't name any more.
    """

    drivers: Mapping[str, tuple[str, ...]]
    apps: Mapping[str, AppFacts]
    stores: Mapping[str, KnownStore]
    tables: tuple[str, ...]
    topologies: tuple[str, ...]
    removed: Mapping[str, KnownStore] = field(default_factory=dict)

    @classmethod
    def of(cls, run_dir: Path) -> Self:
        """Those that the supervisor of a run directory was configured with; if it never was, the configured ones.

        Raises:
            StorageError: the file is damaged.
        """
        return cls.remembered(run_dir) or cls.configured()

    @classmethod
    def remembered(cls, run_dir: Path) -> Self | None:
        """Those that the supervisor of a run directory was configured with; None if it never was. Raises as `of`."""
        try:
            return msgspec.json.decode((run_dir / FILE).read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            msg = f"{run_dir / FILE} is damaged ({error}): remove it, and stores of apps that are gone are not served"
            raise StorageError(msg) from error

    @classmethod
    def configured(cls) -> Self:
        """Those of the configuration. It loads their code."""
        from storekeeper.apps.registry import APPS, DRIVERS, gated_tables  # noqa: PLC0415 (it loads all apps)
        from storekeeper.generations.catalog import facts_of  # noqa: PLC0415

        settings = AppSettings()
        return cls(
            drivers=dict(DRIVERS),
            apps={name: facts_of(app, settings) for name, app in APPS.items()},
            stores={
                store.name: KnownStore(name, str(store.definition))
                for name, app in APPS.items()
                for store in app.stores
            },
            tables=tuple(gated_tables()),
            topologies=tuple(name for name, app in APPS.items() if app.describe is not None),
        )

    @property
    def app_of_store(self) -> Mapping[str, str]:
        """The app of each store that there are snapshots of."""
        return {name: store.app for name, store in self.stores.items()}

    def apps_of(self, program: str) -> tuple[str, ...]:
        """The apps that a process runs: those of the shared driver, or the app of the same name."""
        return self.drivers.get(program, (program,))

    def write(self, run_dir: Path) -> None:
        """Writes the file."""
        write_whole(run_dir / FILE, orjson.dumps(self, option=orjson.OPT_INDENT_2))


def known_stores(run_dir: Path) -> Mapping[str, KnownStore]:
    """The stores of all apps that have ever run in a run directory and are not retired. Raises as `PlatformApps.of`."""
    apps = PlatformApps.remembered(run_dir)
    return {} if apps is None else {**apps.removed, **apps.stores}


def removed_stores(run_dir: Path) -> Mapping[str, KnownStore]:
    """The stores of apps that the configuration doesn't name, and that are not retired. Raises as `PlatformApps.of`."""
    return _not_in(PlatformApps.configured(), known_stores(run_dir))


def remember_apps(run_dir: Path) -> None:
    """Writes the apps that the configuration names, and keeps the stores of others. Raises as `PlatformApps.of`."""
    configured = PlatformApps.configured()
    replace(configured, removed=_not_in(configured, known_stores(run_dir))).write(run_dir)


def forget_stores(run_dir: Path, app: str) -> None:
    """Forgets the stores of an app that the configuration doesn't name any more. Raises as `PlatformApps.of`."""
    apps = PlatformApps.remembered(run_dir)
    if apps is not None:
        left = {name: store for name, store in apps.removed.items() if store.app != app}
        replace(apps, removed=left).write(run_dir)


def _not_in(configured: PlatformApps, stores: Mapping[str, KnownStore]) -> dict[str, KnownStore]:
    """Those of other apps."""
    others = {name: store for name, store in stores.items() if store.app not in configured.apps}
    return {name: store for name, store in others.items() if name not in configured.stores}
