"""The apps of a platform by their names, in a file: the control process and `status` load no code of an app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson

from storekeeper.whole_files import write_whole

FILE = "apps.json"
"""The file in a run directory. The command that writes supervisor's configuration writes it."""


@dataclass(frozen=True, slots=True)
class PlatformApps:
    """Names of what the configured apps have.

    Attributes:
        drivers: the processes of apps, each with the names of the apps that it runs.
        stores: the stores that there are snapshots of, each with its app.
        tables: the tables that the quality gate publishes.
        topologies: the apps that are topologies.
    """

    drivers: Mapping[str, tuple[str, ...]]
    stores: Mapping[str, str]
    tables: tuple[str, ...]
    topologies: tuple[str, ...]

    @classmethod
    def of(cls, run_dir: Path) -> Self:
        """Those that the supervisor of a run directory was configured with; if it never was, the configured ones."""
        try:
            found = orjson.loads((run_dir / FILE).read_bytes())
        except FileNotFoundError:
            return cls.configured()
        drivers = {driver: tuple(apps) for driver, apps in found["drivers"].items()}
        return cls(drivers, found["stores"], tuple(found["tables"]), tuple(found["topologies"]))

    @classmethod
    def configured(cls) -> Self:
        """Those of the configuration. It loads their code."""
        from storekeeper.apps.registry import APPS, DRIVERS, gated_tables, stores  # noqa: PLC0415 (it loads all apps)

        return cls(
            drivers=dict(DRIVERS),
            stores={name: store.app for name, store in stores().items()},
            tables=tuple(gated_tables()),
            topologies=tuple(app.name for app in APPS.values() if app.describe is not None),
        )

    @property
    def apps(self) -> tuple[str, ...]:
        """All apps."""
        return tuple(app for apps in self.drivers.values() for app in apps)

    def apps_of(self, program: str) -> tuple[str, ...]:
        """The apps that a process runs: those of the shared driver, or the app of the same name."""
        return self.drivers.get(program, (program,))

    def write(self, run_dir: Path) -> None:
        """Writes the file."""
        write_whole(run_dir / FILE, orjson.dumps(self, option=orjson.OPT_INDENT_2))
