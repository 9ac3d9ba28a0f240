"""The console script `storekeeper`: loads its commands, and with them all apps, the user's own included."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from pydantic import ValidationError

from deploy.settings import PlatformSettings
from spark_apps.app_log import configure_logging
from state.errors import ConfigurationError

_WANT_APPS = frozenset({"up", "demo", "plan", "create-topics", "supervise", "cleanup", "verify", "restore-snapshot"})
"""The commands that need all apps. The others inspect what runs, or stop it."""


def main() -> NoReturn:
    """Runs the command line and exits. A platform can be stopped even if one of its apps can't be loaded."""
    try:
        run = _commands()
    except ConfigurationError as error:
        sys.stderr.write(f"storekeeper: {error}\n")
        if _WANT_APPS & set(sys.argv[1:2]):
            sys.exit(78)
        sys.stderr.write("storekeeper: going on without your own apps\n")
        os.environ["STOREKEEPER_OWN_APPS"] = ""  # noqa: TID251 (written, not read)
        run = _commands()
    _point_at_platform()
    _log_to_stderr()
    run()


def _log_to_stderr() -> None:
    """Keeps standard output for a command's answer. Only warnings and errors are logged."""
    configure_logging(logging.WARNING)


def _point_at_platform() -> None:
    """Points commands at the broker and the nodes of a platform that isn't on the usual ports."""
    if sys.argv[1:2] == ["serve"]:
        return  # a node gets its peers from the process that starts it
    try:
        settings = PlatformSettings.load()
    except ValidationError:
        return  # a command that needs them reports it
    if settings.model_fields_set & {"kafka_port", "node_port", "node_names"}:
        peers = ",".join(f"{name}={url}" for name, url in settings.node_urls.items())
        for name, value in (("KAFKA_BOOTSTRAP", settings.kafka_bootstrap), ("PEERS", peers)):
            os.environ.setdefault(f"STOREKEEPER_{name}", value)  # noqa: TID251 (written, not read)


def _commands() -> Callable[[], NoReturn]:
    from deploy.cli import main as run  # noqa: PLC0415 (it loads the apps)

    return run


if __name__ == "__main__":
    main()
