"""An app without Spark that behaves as the file `behaviour/<app>` in its run directory says.

It beats for the apps that its arguments name, and loads none of them: that would take longer than all that it does.

`run` (also without a file): beats until TERM. `silent`: beats once, then hangs. `misconfigured`: says why and exits 78.
`crash`: says why and exits 3. `never`: runs, but never beats. `rewind`: as `run`, but from the first offset on.
`small`: runs unless somebody gave it a size.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat

BEAT_S = 0.2


def main(app: str, run_dir: Path, names: Sequence[str]) -> int:
    """Runs until TERM or as long as its behaviour lets it."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    behaviour_file = run_dir / "behaviour" / app
    behaviour = behaviour_file.read_text() if behaviour_file.exists() else "run"
    clock = SystemClock()
    started_at_ms = clock.now_ms()

    def beat(state: AppState, error: str | None = None) -> None:
        now_ms = clock.now_ms()
        for name in names:
            write_heartbeat(
                run_dir / "heartbeats" / f"{name}.json",
                Heartbeat(
                    *(name, 1, os.getpid(), state, started_at_ms, now_ms),
                    last_progress_ms=now_ms,
                    offsets={"pos": {"0": 0 if behaviour == "rewind" else 10}},
                    error=error,
                ),
            )

    sys.stdout.write(f"toy {app} is in the mood to {behaviour}\n")
    sys.stdout.flush()
    if behaviour == "small":
        behaviour = "misconfigured" if (run_dir / "scale" / f"{app}.json").exists() else "run"
    if behaviour in {"misconfigured", "crash"}:
        beat(AppState.FAILED, error="topic pos is missing: create it")
        return 78 if behaviour == "misconfigured" else 3
    if behaviour != "never":
        beat(AppState.RUNNING)
    while not stop.wait(BEAT_S):
        if behaviour in {"run", "rewind"}:
            beat(AppState.RUNNING)
    beat(AppState.STOPPED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
