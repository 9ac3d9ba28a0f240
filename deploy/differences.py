"""Differences between the running platform and the current settings."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import ConfigParser

import psutil

from deploy.credentials import read_supervisor_credentials
from deploy.instance import Instance
from deploy.settings import PlatformSettings
from deploy.settings_reference import ROLES, settings_of
from deploy.supervisor import supervisor_conf

_PROCESS_SETTINGS = {
    setting.variable: setting.default
    for _, _, settings in ROLES
    if settings is not PlatformSettings  # their effect on a platform is in its supervisor's configuration
    for setting in settings_of(settings)
}
"""Each variable that a process of the platform reads, and its default."""


def differences(instance: Instance) -> list[str]:
    """The names of variables whose value differs from the start; if there are none, of programs that differ.

    An unset variable counts as its default. Values are never returned.

    Raises:
        NotRunningError: no supervisor was started in the run directory.
        SupervisorUnreachableError: it doesn't answer.
    """
    credentials = read_supervisor_credentials(instance.layout)
    supervisor = credentials.client().pid()
    conf = instance.layout.supervisor_conf
    written = conf.read_text("utf-8") if conf.exists() else ""
    wanted = supervisor_conf(instance.layout, instance.settings, credentials, instance.programs)
    return _other_variables(_environment_of(supervisor), instance.environment) or _other_programs(written, wanted)


def _environment_of(supervisor: int) -> Mapping[str, str] | None:
    """The environment that its processes inherit. None if it has ended: the next call to the supervisor raises."""
    try:
        return psutil.Process(supervisor).environ()
    except psutil.NoSuchProcess:
        return None


def _other_variables(started_with: Mapping[str, str] | None, wanted: Mapping[str, str]) -> list[str]:
    if started_with is None:
        return []
    return sorted(
        name
        for name, default in _PROCESS_SETTINGS.items()
        if started_with.get(name, default) != wanted.get(name, default)
    )


def _other_programs(written: str, wanted: str) -> list[str]:
    found, sought = _sections(written), _sections(wanted)
    names = sorted(name for name in {*found, *sought} if found.get(name) != sought.get(name))
    return [name.removeprefix("program:") for name in names]


def _sections(text: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    return {name: dict(section) for name, section in parser.items()}
