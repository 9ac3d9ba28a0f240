"""What the control API shows of a platform: processes, apps, stores, generations, topologies, Data Docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from storekeeper.apps.registry import APPS, gated_tables, stores
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.generations.live import live_topology, topology_text
from storekeeper.generations.status import generation_status
from storekeeper.locations import entries
from storekeeper.ops.desired_programs import desired_programs
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations_settings import OperationsSettings
from storekeeper.ops.overview.collect import collect_status, platform_overview
from storekeeper.ops.overview.status import status_json
from storekeeper.ops.overview.tables import summary, tables
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import SupervisorRpc
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import waiting_of

_SUFFIXES = frozenset({".html", ".css"})


class UnknownAppError(StateError):
    """There is no app of that name."""


class NothingToShowError(StateError):
    """There is no such page among the Data Docs, or the app is no topology."""


class UnknownTableError(StateError):
    """There is no table of that name that the quality gate publishes."""


class PlatformViews:
    """Read-only views of a platform, collected at each call. Thread-safe.

    Args:
        platform: the settings of the platform.
        clock: for ages.
    """

    def __init__(self, platform: PlatformSettings, clock: Clock) -> None:
        self._platform = platform
        self._clock = clock
        self._overview = platform_overview(platform, OperationsSettings.load().credentials)

    def status(self) -> dict[str, Any]:
        """What `storekeeper status --output json` prints."""
        return status_json(collect_status(self._platform), self._platform)

    def programs(self) -> dict[str, list[str]]:
        """The processes of apps that must run here, and the apps of each."""
        settings = OperationsSettings.load()
        supervisor = SupervisorRpc.from_secret(RunLayout(settings.run_dir).supervisor_secret)
        return {program: list(apps) for program, apps in desired_programs(supervisor.names(), settings).items()}

    def stores(self) -> list[dict[str, Any]]:
        """The stores that there are snapshots of, with their apps, and whether these have ever run here."""
        begun = {folder.name for folder in entries(OperationsSettings.load().checkpoints)}
        return [{"store": name, "app": spec.app, "has_run": spec.app in begun} for name, spec in stores().items()]

    def generations(self, app: str) -> dict[str, Any]:
        """What `storekeeper generation status APP` prints.

        Raises:
            UnknownAppError: there is no such app.
        """
        _check_app(app)
        return generation_status(app)

    def overview(self) -> dict[str, Any]:
        """What the page *Stores* of Airflow shows: the overview as JSON's own types, and as words."""
        view = self._overview()
        return {**view.as_json(), "summary": summary(view), "tables": [asdict(table) for table in tables(view)]}

    def topology(self, app: str) -> dict[str, str]:
        """The topology that an app's live generation runs: `svg`, `text` and `mermaid`.

        Raises:
            UnknownAppError: there is no such app.
            NothingToShowError: it is not a topology.
        """
        _check_app(app)
        try:
            spec = APPS[app]
            topology = live_topology(spec, AppSettings())
        except ConfigurationError as error:
            raise NothingToShowError(str(error)) from error
        return {"svg": topology.svg(), "text": topology_text(spec, topology), "mermaid": topology.mermaid()}

    def data_docs(self, table: str, file: str) -> bytes:
        """A page or style sheet of the Data Docs of a table.

        Raises:
            NothingToShowError: there is none of that name in the folder of Data Docs.
        """
        settings = QualitySettings.of_platform()
        root = settings.data_docs_dir("").resolve()
        try:
            path = (settings.data_docs_dir(table) / file).resolve()
            if path.suffix in _SUFFIXES and path.is_relative_to(root):
                return path.read_bytes()
        except (OSError, ValueError):
            pass  # there is no such file, or no file can have that name
        raise NothingToShowError("there is no such page among the Data Docs")

    def waiting(self, table: str) -> Mapping[str, Any] | None:
        """The staged versions of a table that nobody has checked, and their rows; None if there are none.

        Raises:
            UnknownTableError: the quality gate publishes no such table.
            StagedTableError: the staged table can't be checked as it is.
        """
        if table not in gated_tables():
            msg = f"the quality gate publishes no table {table[:140]!r}: choose one of {', '.join(gated_tables())}"
            raise UnknownTableError(msg)
        found = waiting_of(table, QualitySettings.of_platform(), self._clock)
        return None if found is None else asdict(found)


def _check_app(app: str) -> None:
    # Not `app_named`: a path must not name a module to import.
    if app not in APPS:
        msg = f"there is no app {app[:140]!r}: choose one of {', '.join(APPS)}"
        raise UnknownAppError(msg)
