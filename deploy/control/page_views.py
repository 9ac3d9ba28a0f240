"""What Airflow's page *Stores* shows of the platform: tables of words, topologies of apps, and Data Docs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from deploy.control.app import NothingToShowError, UnknownAppError
from deploy.overview.model import Overview
from deploy.overview.tables import summary, tables
from quality.settings import QualitySettings
from spark_apps.generations.live import live_topology
from spark_apps.registry import APPS
from spark_apps.settings import AppSettings
from state.errors import ConfigurationError

_SUFFIXES = frozenset({".html", ".css"})


def overview_json(view: Overview) -> dict[str, Any]:
    """The overview as JSON's own types, and as the words that the page shows."""
    return {**view.as_json(), "summary": summary(view), "tables": [asdict(table) for table in tables(view)]}


def topology_of(app: str) -> dict[str, str]:
    """The topology that an app's live generation runs: `svg`, `text` and `mermaid`.

    Raises:
        UnknownAppError: there is no such app.
        NothingToShowError: it is no topology.
    """
    check_app(app)
    try:
        topology = live_topology(APPS[app], AppSettings())
    except ConfigurationError as error:
        raise NothingToShowError(str(error)) from error
    return {"svg": topology.svg(), "text": topology.describe(), "mermaid": topology.mermaid()}


def check_app(app: str) -> None:
    """Checks that there is an app of that name.

    Raises:
        UnknownAppError: there is none.
    """
    # Not `app_named`: a path must not name a module to import.
    if app not in APPS:
        msg = f"there is no app {app[:140]!r}: choose one of {', '.join(APPS)}"
        raise UnknownAppError(msg)


def data_docs_file(table: str, file: str) -> bytes:
    """A page or style sheet of the Data Docs of a table.

    Raises:
        NothingToShowError: there is none of that name in the folder of Data Docs.
    """
    folder = QualitySettings.of_platform().data_docs_dir(table)
    root = QualitySettings.of_platform().data_docs_dir("").resolve()
    try:
        path = (folder / file).resolve()
        if path.suffix in _SUFFIXES and path.is_relative_to(root):
            return path.read_bytes()
    except (OSError, ValueError):
        pass  # there is no such file, or no file can have that name
    raise NothingToShowError("there is no such page among the Data Docs")
