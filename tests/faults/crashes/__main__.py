"""`python -m tests.faults.crashes APP POINT VICTIM SKIP SLOT`: runs an app that dies at a named point."""

from __future__ import annotations

import sys
import threading
from functools import partial

from spark_apps.app_log import configure_logging
from spark_apps.cli import exit_code
from spark_apps.registry import app_named
from spark_apps.runner import AppRun
from spark_apps.settings import AppSettings
from state.clock import SystemClock
from state.errors import StateError
from tests.faults.crashes.dying_app import ArmedCrash, arm, dying_process, next_batch
from tests.faults.crashes.points import Point, Victim


def main() -> int:
    """Runs the app until it dies; its exit code if it doesn't."""
    name, point, victim, skip, slot = sys.argv[1:]
    configure_logging()
    spec = app_named(name)
    settings = spec.settings(AppSettings())
    checkpoint = settings.checkpoint_dir(name)
    crash = ArmedCrash(Point(point), Victim(victim), next_batch(checkpoint) + int(skip), int(slot))
    arm(crash, checkpoint)
    try:
        AppRun(spec, settings, SystemClock(), threading.Event(), around_batch=partial(dying_process, crash))()
    except StateError as error:
        sys.stderr.write(f"failed: {type(error).__name__}: {error}\n")
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
