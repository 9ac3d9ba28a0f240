"""`python -m harness.crashes APP`: runs an app that dies where a kill waits for it."""

from __future__ import annotations

import sys
import threading

from harness.crashes.armed import Armed
from harness.crashes.dying_driver import DyingDriver
from storekeeper.apps.app_log import configure_logging
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.runner import AppRun
from storekeeper.errors import StateError
from storekeeper.program import exit_code_of


def main() -> int:
    """Runs the app until it dies; its exit code if it doesn't."""
    (name,) = sys.argv[1:]
    configure_logging()
    spec = app_named(name)
    settings = spec.settings(AppSettings())
    dying = DyingDriver(Armed.here(), settings.checkpoint_dir(name))
    dying.prepare()
    try:
        AppRun(spec, settings, SystemClock(), threading.Event(), around_batch=dying.around_batch)()
    except StateError as error:
        sys.stderr.write(f"failed: {type(error).__name__}: {error}\n")
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
