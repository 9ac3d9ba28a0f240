"""What the control API shows of a platform: processes, apps, stores, generations, topologies, Data Docs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from storekeeper.apps.settings import ClientSettings
from storekeeper.clock import SystemClock
from storekeeper.generations.status import AppFacts, generation_status
from storekeeper.locations import entries
from storekeeper.ops.control.app_actions import supervisor_of
from storekeeper.ops.control.asked import asked
from storekeeper.ops.control.problems import CommandFailedError, NothingToShowError, UnknownAppError, UnknownTableError
from storekeeper.ops.overview.collect import collect_status, platform_overview
from storekeeper.ops.overview.status import status_json
from storekeeper.ops.overview.tables import summary, tables
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.programs import desired_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.quality.errors import StagedTableError
from storekeeper.quality.settings import QualitySettings

_SUFFIXES = frozenset({".html", ".css"})


class PlatformViews:
    """Read-only views of a platform, collected at each call. Thread-safe. None loads code of an app."""

    def __init__(self, platform: PlatformSettings) -> None:
        self._platform = platform
        self._overview = platform_overview(platform, ClientSettings.load().credentials)

    def status(self) -> dict[str, Any]:
        """What `storekeeper status --output json` prints."""
        return status_json(collect_status(self._platform), self._platform)

    def programs(self) -> dict[str, list[str]]:
        """The processes of apps that must run here, and the apps of each."""
        settings = ClientSettings.load()
        desired = desired_programs(supervisor_of(settings).names(), settings, self._apps().drivers)
        return {program: list(apps) for program, apps in desired.items()}

    def stores(self) -> list[dict[str, Any]]:
        """The stores that there are snapshots of, with their apps, and whether these have ever run here."""
        begun = {folder.name for folder in entries(ClientSettings.load().checkpoints)}
        return [{"store": name, "app": app, "has_run": app in begun} for name, app in self._apps().app_of_store.items()]

    def generations(self, app: str) -> dict[str, Any]:
        """What `storekeeper generation status APP` prints.

        Raises:
            UnknownAppError: there is no such app.
            GenerationRefusedError: it can't have generations.
        """
        return generation_status(self._app(app), ClientSettings.load(), SystemClock())

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
        self._app(app)
        try:
            return asked("topology", app)
        except CommandFailedError as error:
            raise NothingToShowError(str(error)) from error

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

    def waiting(self, table: str) -> dict[str, Any] | None:
        """The staged versions of a table that nobody has checked, and their rows; None if there are none.

        Raises:
            UnknownTableError: the quality gate publishes no such table.
            StagedTableError: the staged table can't be checked as it is.
        """
        known = self._apps().tables
        if table not in known:
            msg = f"the quality gate publishes no table {table[:140]!r}: choose one of {', '.join(known)}"
            raise UnknownTableError(msg)
        try:
            waiting: dict[str, Any] | None = asked("check", table, "--dry-run")["waiting"]
        except CommandFailedError as error:
            raise StagedTableError(str(error)) from error
        return waiting

    def _apps(self) -> PlatformApps:
        return PlatformApps.of(self._platform.run_dir)

    def _app(self, app: str) -> AppFacts:
        known = self._apps().apps
        if app not in known:
            raise UnknownAppError(f"there is no app {app[:140]!r}: choose one of {', '.join(known)}")
        return known[app]
