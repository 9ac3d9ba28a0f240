"""The text of `supervisord.conf`: a pure function of programs and settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from deploy.credentials import SupervisorCredentials
from deploy.layout import RunLayout
from deploy.programs import CONFIGURATION_ERROR_EXIT, Program
from deploy.settings import PlatformSettings

# The wait grows by a second with each try that fails: this many tries take about a week.
_START_RETRIES = 1000
_LOG_BACKUPS = 3


def supervisor_conf(
    layout: RunLayout, settings: PlatformSettings, credentials: SupervisorCredentials, programs: Iterable[Program]
) -> str:
    """The configuration. It holds the password of XML-RPC: write it to a private file."""
    sections = [
        _server_section(settings, credentials),
        _daemon_section(layout),
        _section("rpcinterface:supervisor", _RPC_INTERFACE),
        *(_program_section(program, layout, settings) for program in programs),
    ]
    return "\n".join(sections)


_RPC_INTERFACE = {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"}


def _server_section(settings: PlatformSettings, credentials: SupervisorCredentials) -> str:
    return _section(
        "inet_http_server",
        {
            "port": f"127.0.0.1:{settings.supervisor_port}",
            "username": credentials.username,
            "password": credentials.password,
        },
    )


def _daemon_section(layout: RunLayout) -> str:
    return _section(
        "supervisord",
        {
            "logfile": str(layout.supervisor / "supervisord.log"),
            "logfile_maxbytes": "5MB",
            "logfile_backups": "2",
            "pidfile": str(layout.supervisor / "supervisord.pid"),
            "childlogdir": str(layout.logs),
            "directory": str(layout.root),
            "identifier": "storekeeper",
            "umask": "077",
        },
    )


def _program_section(program: Program, layout: RunLayout, settings: PlatformSettings) -> str:
    options = {
        "command": shlex.join(program.command),
        "directory": str(layout.root),
        # `storekeeper up` and Airflow start programs, in their order; the supervisor only restarts them.
        "autostart": "false",
        "autorestart": "true" if program.restart_always else "unexpected",
        "exitcodes": f"0,{CONFIGURATION_ERROR_EXIT}",
        "startsecs": str(program.start_s),
        "startretries": str(_START_RETRIES),
        "stopsignal": "TERM",
        "stopwaitsecs": str(program.stop_s),
        "stopasgroup": "true" if program.group_stop else "false",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(layout.log(program.name)),
        "stdout_logfile_maxbytes": f"{settings.log_max_mb}MB",
        "stdout_logfile_backups": str(_LOG_BACKUPS),
    }
    return _section(f"program:{program.name}", options)


def _section(name: str, options: dict[str, str]) -> str:
    # The supervisor expands %(...)s in every value.
    lines = [f"{key}={value.replace('%', '%%')}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])
