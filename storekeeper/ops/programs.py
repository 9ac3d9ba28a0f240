"""The processes of the platform and how each is supervised: pure data, from the settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storekeeper.apps.registry import APPS, DRIVERS
from storekeeper.errors import ConfigurationError
from storekeeper.generations.desired_state import Role
from storekeeper.ops.broker import platform_broker
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.program_names import AIRFLOW_COMMAND, AIRFLOW_PROGRAMS, CONTROL, KAFKA, Kind, kind_of, node_program
from storekeeper.ops.settings import PlatformSettings
from storekeeper.program import storekeeper_command

STOP_TIMEOUT_S = 60
"""How long a process may take to end before it is killed. An app drains its batch meanwhile: `DRAIN_TIMEOUT_S`."""
_PACED_EXEC = Path(__file__).with_name("paced_exec.py")
_PACE = 3
"""The words that pace a command: Python, the program that paces, and the file of the record."""


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
    broker = _paced_program(KAFKA, layout, platform_broker(layout, settings), restart_always=True)
    programs = (
        *((broker,) if settings.starts_broker else ()),
        *(_airflow_program(name, layout, settings) for name in AIRFLOW_PROGRAMS if settings.embeds_airflow),
        *_app_programs(layout),
        *(
            _paced_program(node_program(name), layout, storekeeper_command("node", name))
            for name in settings.node_names
        ),
        replace(
            _paced_program(CONTROL, layout, storekeeper_command("control"), restart_always=True), starts_itself=True
        ),
    )
    _check_distinct(programs)
    return programs


def _check_distinct(programs: Sequence[Program]) -> None:
    names = [program.name for program in programs]
    apps = [name for app in APPS for name in (app, Role.NEXT.program(app))]
    for name in names:
        if names.count(name) > 1 or (name in apps and kind_of(name) is not Kind.APP):
            raise ConfigurationError(f"`apps` has an app that needs the name {name} of another process: rename yours")


def _app_programs(layout: RunLayout) -> tuple[Program, ...]:
    """The processes of the stream apps."""
    commands: list[tuple[str, tuple[str, ...]]] = [
        *((name, ("run", *apps)) for name, apps in DRIVERS.items()),
        *((Role.NEXT.program(app.name), ("run", "--next", app.name)) for app in APPS.values() if app.has_generations),
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
