"""The console script `storekeeper`: loads its commands, and with them all apps, one's own included."""

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
"""The commands that make no sense without all apps. The others look at what runs, or end it."""


def main() -> NoReturn:
    """Runs the command line and exits. An app that can't be loaded keeps nobody from ending what runs."""
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
    """Keeps standard output for what a command answers. People read sentences; warnings are all that is logged."""
    configure_logging(logging.WARNING)


def _point_at_platform() -> None:
    """Has commands ask the broker and the nodes of a platform that isn't on the usual ports."""
    if sys.argv[1:2] == ["serve"]:
        return  # a node is told of its peers by whoever starts it
    try:
        settings = PlatformSettings.load()
    except ValidationError:
        return  # whichever command needs them says so
    if settings.model_fields_set & {"kafka_port", "node_port", "node_names"}:
        peers = ",".join(f"{name}={url}" for name, url in settings.node_urls.items())
        for name, value in (("KAFKA_BOOTSTRAP", settings.kafka_bootstrap), ("PEERS", peers)):
            os.environ.setdefault(f"STOREKEEPER_{name}", value)  # noqa: TID251 (written, not read)


def _commands() -> Callable[[], NoReturn]:
    from deploy.cli import main as run  # noqa: PLC0415 (it loads the apps)

    return run


if __name__ == "__main__":
    main()
