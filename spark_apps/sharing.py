"""In which process each on-demand app runs: all share one, until the state of one is changed. Free of Spark.

An app whose state is changed, or was, has two generations to run beside each other, and processes of its own for them.
What tells is its journal: whoever is to change it writes one first (`generation detach`), and the shared process lets
the app go.
"""

from __future__ import annotations

from pathlib import Path

from spark_apps.generations.journal import JournalFile
from spark_apps.registry import ON_DEMAND_APPS, TOGETHER
from spark_apps.spec import AppSpec
from state.errors import ConfigurationError


def has_own_process(app: str, run_dir: Path) -> bool:
    """Whether an app runs by itself from now on."""
    return JournalFile(run_dir, app).exists


def check_sharing(app: str, run_dir: Path) -> None:
    """Refuses an app that can't share a process any more.

    Raises:
        ConfigurationError: its state was changed, or is being changed.
    """
    if has_own_process(app, run_dir):
        msg = (
            f"the state of {app} was changed, or is being changed, which takes a process of its own: "
            f"start it by `run {app}`, and name the other apps here"
        )
        raise ConfigurationError(msg)


def sharing_apps(run_dir: Path) -> dict[str, AppSpec]:
    """The on-demand apps that share the process `together`, by name."""
    return {name: app for name, app in ON_DEMAND_APPS.items() if not has_own_process(name, run_dir)}


def detached_apps(run_dir: Path) -> dict[str, AppSpec]:
    """The on-demand apps that run by themselves, by name."""
    return {name: app for name, app in ON_DEMAND_APPS.items() if has_own_process(name, run_dir)}


def apps_in(program: str, run_dir: Path) -> tuple[str, ...]:
    """The names of the apps that run in a process: those that share it, or the one that it is called after."""
    return tuple(sharing_apps(run_dir)) if program == TOGETHER else (program,)
