"""The processes of apps that must run."""

from __future__ import annotations

from collections.abc import Collection

from spark_apps.generations.desired_state import Role, desired_state_of
from spark_apps.generations.journal import JournalFile
from spark_apps.registry import KEPT_APPS, SHARED_DRIVER, apps_of
from state.locations import Location


def watched_programs(known: Collection[str], durable: Location) -> dict[str, tuple[str, ...]]:
    """The supervisor's programs that must run, each with the names of the heartbeats that it writes.

    Args:
        known: the supervisor's programs: those of the apps that this platform runs.
        durable: holds the generations' journals: a generation that isn't live has a process of its own.
    """
    found = {program: apps_of(program) for program in (*KEPT_APPS, SHARED_DRIVER) if program in known}
    for app in [app for apps in found.values() for app in apps]:
        journal = JournalFile(durable, app).read()
        if journal is not None and desired_state_of(journal, Role.NEXT) is not None:
            found[Role.NEXT.program(app)] = (Role.NEXT.program(app),)
    return found
