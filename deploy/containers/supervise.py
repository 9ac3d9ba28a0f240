"""The supervisor of the stream apps alone, in the foreground: broker, Airflow and nodes are elsewhere.

It listens on loopback, as in the embedded platform. Airflow reaches it by the control API, which it keeps alive, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from deploy.environment import inherited_environment, is_foreign
from deploy.layout import RunLayout
from deploy.programs import Program, app_programs, control_program
from deploy.settings import PlatformSettings
from deploy.supervisor import supervisor_command, write_supervisor_conf
from state.configuration import own_file
from state.run_dir import make_private


def supervise_apps(settings: PlatformSettings, control: str) -> NoReturn:
    """Replaces this process with the supervisor. Airflow starts the apps. On TERM it stops the apps, then ends.

    Args:
        settings: the platform's.
        control: `HOST:PORT` of the control API, which is started at once.
    """
    layout = RunLayout(settings.run_dir)
    make_private(layout.root)
    programs = (control_program(layout, control), *app_programs(layout, settings))
    command = prepare_supervisor(layout, settings, programs)
    environment = app_environment(settings, inherited_environment())
    os.chdir(layout.root)
    os.execve(sys.executable, command, environment)  # noqa: S606 (no shell, and the signals of a container reach it)


def prepare_supervisor(layout: RunLayout, settings: PlatformSettings, programs: tuple[Program, ...]) -> list[str]:
    """Writes the configuration of a supervisor of `programs` and returns its argv."""
    layout.make()
    write_supervisor_conf(layout, settings, programs)
    return supervisor_command(layout, "-n")


def app_environment(settings: PlatformSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of the apps: the caller's `STOREKEEPER_*` decide about brokers and Spark's master."""
    base = {name: value for name, value in inherited.items() if not is_foreign(name)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', os.defpath)}"
    own = {"STOREKEEPER_RUN_DIR": str(settings.run_dir), "STOREKEEPER_JARS_DIR": str(settings.jars_dir)}
    own["STOREKEEPER_CONFIG"] = str(own_file() or "")  # the apps run in another folder
    return base | own | {"PATH": path, "PYTHONUNBUFFERED": "1"}
