"""`python -m harness.crashes PROCESS`: runs an app, or those of the shared driver, which die where a kill waits."""

from __future__ import annotations

import sys
import threading
from typing import Any

from harness.crashes.armed import Armed
from harness.crashes.dying_driver import DyingDriver, prepare
from storekeeper.apps.app_log import configure_logging
from storekeeper.apps.registry import app_named, apps_of
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.driver.process import run_apps
from storekeeper.engine.driver.runner import AppRun
from storekeeper.errors import StateError
from storekeeper.program import exit_code_of


def main() -> int:
    """Runs the apps until they die; the exit code if they don't."""
    (process,) = sys.argv[1:]
    configure_logging()
    armed = Armed.here()
    prepare(armed)

    def mortal(app: AppSpec, settings: AppSettings, clock: Clock, stop: threading.Event, shared: Any = None) -> AppRun:
        dying = DyingDriver(armed, app.name, settings.checkpoint_dir(app.name))
        return AppRun(app, settings, clock, stop, around_batch=dying.around_batch, shared=shared)

    try:
        run_apps([app_named(app) for app in apps_of(process)], AppSettings(), SystemClock(), threading.Event(), mortal)
    except StateError as error:
        sys.stderr.write(f"failed: {type(error).__name__}: {error}\n")
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
