"""The processes of the platform: their names, how each is supervised, and which of apps should run.

Those of apps that should run are those of the configuration and the journals that no person has stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError, TablesUnreachableError
from storekeeper.generations.desired_state import Role, desired_state_of
from storekeeper.generations.journal import JournalFile
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from storekeeper.program import storekeeper_command

if TYPE_CHECKING:
    from storekeeper.apps.spec import AppSpec

KAFKA = "kafka"
AIRFLOW_PROGRAMS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
AIRFLOW_COMMAND = (sys.executable, "-m", "storekeeper.ops.airflow_process")
"""Runs Airflow's own command with the arguments behind it."""
CONTROL = "control"
"""The process of the control API, which also exports the metrics of apps, snapshots and the quality gate."""
STOP_TIMEOUT_S = 60
"""How long a process may take to end before it is killed. An app drains its batch meanwhile: `DRAIN_TIMEOUT_S`."""
_PACED_EXEC = Path(__file__).with_name("paced_exec.py")
_PACE = 3
"""The words that pace a command: Python, the program that paces, and the file of the record."""

_log = structlog.get_logger(__name__)


def node_program(node: str) -> str:
    """The supervisor's name for a query node."""
    return f"node-{node}"


class Kind(StrEnum):
    """What a process is."""

    BROKER = "broker"
    AIRFLOW = "Airflow"
    NODE = "node"
    APP = "app"
    CONTROL = "control"


def kind_of(name: str) -> Kind:
    """What the process of that name is."""
    if name == CONTROL:
        return Kind.CONTROL
    prefix, dash, _ = name.partition("-")
    known = {"airflow": Kind.AIRFLOW, "node": Kind.NODE} if dash else {KAFKA: Kind.BROKER}
    return known.get(prefix, Kind.APP)


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process.

    `start_s`: running that long counts as started; ending earlier means back-off before the next try. 0 where the
    exit code decides, and `paced_exec` backs off.
    `command`: with the pace of `paced_exec`, which also records what it was started with.
    `group_stop`: TERM goes to the whole process group (Airflow's children don't end with their parent) and not to the
    process alone (a Spark driver needs its JVM to finish the batch). KILL always goes to the group.
    `starts_itself`: with the supervisor; others are started by `storekeeper up` or the control API.
    """

    name: str
    command: tuple[str, ...]
    start_s: int
    stop_s: int
    group_stop: bool
    restart_always: bool
    starts_itself: bool = False

    @property
    def paced(self) -> tuple[str, ...]:
        """The command without its pace, as the record of a start has it."""
        return self.command[_PACE:]


def platform_programs(layout: RunLayout, settings: PlatformSettings) -> tuple[Program, ...]:
    """Every process of the platform, in the order of starting.

    Raises:
        ConfigurationError: an app has the name of another process.
    """
    from storekeeper.apps.registry import APPS, DRIVERS  # noqa: PLC0415 (it loads all apps)
    from storekeeper.ops.broker import platform_broker  # noqa: PLC0415 (as above)

    broker = _paced_program(KAFKA, layout, platform_broker(layout, settings), restart_always=True)
    programs = (
        *((broker,) if settings.starts_broker else ()),
        *(_airflow_program(name, layout, settings) for name in AIRFLOW_PROGRAMS if settings.embeds_airflow),
        *_app_programs(layout, APPS, DRIVERS),
        *(
            _paced_program(node_program(name), layout, storekeeper_command("node", name))
            for name in settings.node_names
        ),
        replace(
            _paced_program(CONTROL, layout, storekeeper_command("control"), restart_always=True), starts_itself=True
        ),
    )
    _check_distinct(programs, APPS)
    return programs


def _check_distinct(programs: Sequence[Program], known: Collection[str]) -> None:
    names = [program.name for program in programs]
    apps = [name for app in known for name in (app, Role.NEXT.program(app))]
    for name in names:
        if names.count(name) > 1 or (name in apps and kind_of(name) is not Kind.APP):
            raise ConfigurationError(f"`apps` has an app that needs the name {name} of another process: rename yours")


def _app_programs(
    layout: RunLayout, apps: Mapping[str, AppSpec], drivers: Mapping[str, Sequence[str]]
) -> tuple[Program, ...]:
    """The processes of the stream apps."""
    commands: list[tuple[str, tuple[str, ...]]] = [
        *((name, ("run", *run)) for name, run in drivers.items()),
        *((Role.NEXT.program(app.name), ("run", "--next", app.name)) for app in apps.values() if app.has_generations),
    ]
    return tuple(_paced_program(name, layout, storekeeper_command(*command)) for name, command in commands)


def _airflow_program(name: str, layout: RunLayout, settings: PlatformSettings) -> Program:
    component = name.removeprefix("airflow-")
    # The components' own log servers would listen on every address; logs are read from the shared folder instead.
    options = {
        "api-server": ("--host", "127.0.0.1", "--port", str(settings.airflow_port), "--workers", "1"),
        "scheduler": ("--skip-serve-logs",),
        "triggerer": ("--skip-serve-logs",),
    }.get(component, ())
    program = _paced_program(name, layout, (*AIRFLOW_COMMAND, component, *options), restart_always=True)
    # If TERM ends the whole group, the scheduler waits for its executor workers for ever; it ends them itself.
    return replace(program, stop_s=20, group_stop=component != "scheduler")


def _paced_program(name: str, layout: RunLayout, command: Sequence[str], *, restart_always: bool = False) -> Program:
    """A process that ends its own children, and waits before it starts again too soon."""
    state_file = layout.start_record(name)
    return Program(
        name=name,
        command=(sys.executable, str(_PACED_EXEC), str(state_file), *command),
        start_s=0,
        stop_s=STOP_TIMEOUT_S,
        group_stop=False,
        restart_always=restart_always,
    )


def desired_programs(
    known: Collection[str], settings: AppSettings, drivers: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The supervisor's programs of apps that belong to the platform, each with the names of the heartbeats it writes.

    Those that a person has stopped are among them.

    Args:
        known: the supervisor's programs: those of the apps that this platform runs.
        settings: where the generations' journals are: a generation that isn't live has a process of its own. It is left
            out while its journal can't be reached, and where a setting fixes the generation.
        drivers: the processes of apps, each with the names of its apps.
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
