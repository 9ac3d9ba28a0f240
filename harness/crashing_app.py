"""An app that is killed at the worst moment: `python -m harness.crashing_app <app> <batch>`.

It dies right after it has written that batch, and before Spark takes note.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.driver.runner import AppRun
from storekeeper.engine.runtime.batch_query import ProcessBatch


def killed_after(batch: int, process: ProcessBatch) -> ProcessBatch:
    """`process`, and after that batch the end of this Python."""

    def processed(batch_id: int) -> None:
        process(batch_id)
        if batch_id == batch:
            os.kill(os.getpid(), signal.SIGKILL)

    return processed


if __name__ == "__main__":
    app, number = sys.argv[1], int(sys.argv[2])
    AppRun(
        app_named(app),
        AppSettings(),
        SystemClock(),
        threading.Event(),
        around_batch=lambda process: killed_after(number, process),
    )()
