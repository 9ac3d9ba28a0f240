"""The console script `storekeeper`: loads its commands, and with them all apps, the user's own included."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from spark_apps.app_log import configure_logging
from state.configuration import PREFIX, configuration_file, own_file, read_file
from state.errors import ConfigurationError

_WANT_APPS = frozenset({"up", "demo", "plan", "create-topics", "supervise", "cleanup", "verify", "restore-snapshot"})
"""The commands that need all apps. The others inspect what runs, or stop it."""

_OF_THE_USER = frozenset({"up", "demo", "settings"})
"""The commands with the user's own configuration file. The others have the settings of the running platform."""


def main() -> NoReturn:
    """Runs the command line and exits. A platform can be stopped even if one of its apps can't be loaded."""
    _find_configuration()
    try:
        run = _commands()
    except ConfigurationError as error:
        sys.stderr.write(f"storekeeper: {error}\n")
        if _WANT_APPS & set(sys.argv[1:2]):
            sys.exit(78)
        sys.stderr.write("storekeeper: going on without your own apps\n")
        os.environ["STOREKEEPER_OWN_APPS"] = ""  # noqa: TID251 (written, not read)
        run = _commands()
    _log_to_stderr()
    run()


def _find_configuration() -> None:
    """Finds and checks the configuration file ahead of the apps, which read it."""
    try:
        if _OF_THE_USER & set(sys.argv[1:2]):
            os.environ[f"{PREFIX}CONFIG"] = str(own_file() or "")  # noqa: TID251 (written, not read)
        path = configuration_file()
        if path is not None:
            read_file(path)
    except ConfigurationError as error:
        sys.stderr.write(f"storekeeper: {error}\n")
        sys.exit(78)


def _log_to_stderr() -> None:
    """Keeps standard output for a command's answer. Only warnings and errors are logged."""
    configure_logging(logging.WARNING)


def _commands() -> Callable[[], NoReturn]:
    from deploy.cli import main as run  # noqa: PLC0415 (it loads the apps)

    return run


if __name__ == "__main__":
    main()
