"""Which processes of apps should run: those of the configuration and the journals that no person has stopped."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import TablesUnreachableError
from storekeeper.generations.desired_state import Role, desired_state_of
from storekeeper.generations.journal import JournalFile
from storekeeper.ops.layout import RunLayout

_log = structlog.get_logger(__name__)


def desired_programs(
    known: Collection[str], settings: AppSettings, drivers: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Those of the supervisor's programs `known` that belong to the platform, each with the names of the heartbeats it
    writes.

    Those that a person has stopped are among them. `drivers` are the processes of apps, each with the names of its
    apps. A generation that isn't live has a process of its own. It is left out while its journal can't be reached, and
    where a setting fixes the generation.
    """
    found = {program: apps for program, apps in drivers.items() if program in known}
    if settings.fixes_generation:
        return found
    for app in [app for apps in found.values() for app in apps]:
        try:
            journal = JournalFile(settings.durable, app).read()
        except TablesUnreachableError as error:
            _log.warning("next_generation_unknown", app=app, error=str(error))
            continue
        if journal is not None and desired_state_of(journal, Role.NEXT) is not None:
            found[Role.NEXT.program(app)] = (Role.NEXT.program(app),)
    return found


def stopped_programs(layout: RunLayout) -> frozenset[str]:
    """The programs that a person has stopped, and nobody has started since."""
    return frozenset(path.name for path in layout.stopped.glob("*"))
