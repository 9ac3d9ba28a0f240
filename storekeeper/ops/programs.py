"""The processes of the platform and how each is supervised: pure data, from the settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storekeeper.apps.registry import APPS, DRIVERS
from storekeeper.errors import ConfigurationError
from storekeeper.generations.desired_state import Role
from storekeeper.ops.broker import platform_broker
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from storekeeper.program import storekeeper_command

KAFKA = "kafka"
AIRFLOW_PROGRAMS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
METRICS = "metrics"
"""The process that exports metrics of apps, snapshots and the quality gate to Prometheus."""
CONTROL = "control"
"""The process of the control API."""
STOP_TIMEOUT_S = 60
"""How long a process may take to end before it is killed. An app drains its batch meanwhile: `DRAIN_TIMEOUT_S`."""
_PACED_EXEC = Path(__file__).with_name("paced_exec.py")


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process.

    `start_s`: running that long counts as started; ending earlier means back-off before the next try. 0 where the
    exit code decides, and `paced_exec` backs off.
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


def node_program(node: str) -> str:
    """The supervisor's name for a query node."""
    return f"node-{node}"


def platform_programs(
    layout: RunLayout, settings: PlatformSettings, environment: Mapping[str, str]
) -> tuple[Program, ...]:
    """Every process of the platform, in the order of starting.

    Raises:
        ConfigurationError: an app has the name of another process.
    """
    broker = Program(
        name=KAFKA,
        command=tuple(platform_broker(layout, settings, environment)),
        start_s=2,
        stop_s=STOP_TIMEOUT_S,
        group_stop=False,
        restart_always=True,
    )
    programs = (
        *((broker,) if settings.starts_broker else ()),
        *(_airflow_program(name, settings) for name in AIRFLOW_PROGRAMS if settings.embeds_airflow),
        *_app_programs(layout),
        *(_paced_program(node_program(name), layout, "node", name) for name in settings.node_names),
        _paced_program(METRICS, layout, "metrics", "--port", str(settings.metrics_port), restart_always=True),
        replace(_paced_program(CONTROL, layout, "control", restart_always=True), starts_itself=True),
    )
    _check_distinct(programs)
    return programs


def _check_distinct(programs: Sequence[Program]) -> None:
    names = [program.name for program in programs]
    for name in names:
        if names.count(name) > 1:
            msg = f"STOREKEEPER_APPS has an app that needs the name {name} of another process: rename yours"
            raise ConfigurationError(msg)


def _app_programs(layout: RunLayout) -> tuple[Program, ...]:
    """The processes of the stream apps."""
    commands: list[tuple[str, tuple[str, ...]]] = [
        *((name, ("run", *apps)) for name, apps in DRIVERS.items()),
        *(
            (Role.NEXT.program(app.name), ("generation", "run", app.name))
            for app in APPS.values()
            if app.has_generations
        ),
    ]
    return tuple(_paced_program(name, layout, *command) for name, command in commands)


def _airflow_program(name: str, settings: PlatformSettings) -> Program:
    component = name.removeprefix("airflow-")
    # The components' own log servers would listen on every address; logs are read from the shared folder instead.
    options = {
        "api-server": ("--host", "127.0.0.1", "--port", str(settings.airflow_port), "--workers", "1"),
        "scheduler": ("--skip-serve-logs",),
        "triggerer": ("--skip-serve-logs",),
    }.get(component, ())
    return Program(
        name=name,
        command=tuple(storekeeper_command("airflow", component, *options)),
        start_s=5,
        stop_s=20,
        # If TERM ends the whole group, the scheduler waits for its executor workers for ever; it ends them itself.
        group_stop=component != "scheduler",
        restart_always=True,
    )


def _paced_program(name: str, layout: RunLayout, *command: str, restart_always: bool = False) -> Program:
    """A process of `storekeeper` that ends its own children, and waits before it starts again too soon."""
    state_file = layout.supervisor / f"{name}.start.json"
    return Program(
        name=name,
        command=(sys.executable, str(_PACED_EXEC), str(state_file), *storekeeper_command(*command)),
        start_s=0,
        stop_s=STOP_TIMEOUT_S,
        group_stop=False,
        restart_always=restart_always,
    )
