"""Ends a process of apps that makes no progress, so that its supervisor starts it again. Free of Spark.

A thread reads what the process's own heartbeats say. If that thread hangs too, because something holds Python's global
lock, a timer of the interpreter's C code ends the process. Either way the log gets the stacks of all threads.

A batch may be long for good reasons, and nothing of it is left at a restart. So each process has twice the time of the
one before it that was ended, until a batch is committed.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat, write_heartbeat
from storekeeper.program import ExitCode

_CODE = int(ExitCode.TRY_AGAIN)
_POLL_S = 2.0
_MOST_DOUBLINGS = 6
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Progress:
    """When each app of a process last went on.

    Args:
        limit_s: how long an app may take to start, may be silent, or may commit nothing while input waits.
        began_s: when the process began, on the clock of `stalled`.
        pid: of this process. Heartbeats of others say nothing about it.
    """

    limit_s: float
    began_s: float
    pid: int
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict, init=False)

    def stalled(self, beats: Mapping[str, Heartbeat | None], now_s: float) -> tuple[str, str] | None:
        """The first app that has not gone on for too long, and why, at `now_s` of a clock that never jumps."""
        for app, beat in beats.items():
            mark, reason = self._mark(beat)
            before, since_s = self._seen.get(app, (None, self.began_s))
            if mark != before:
                self._seen[app] = (mark, now_s)
            elif reason is not None and now_s - since_s > self.limit_s:
                return app, f"{reason} for {now_s - since_s:.0f} s"
        return None

    def _mark(self, beat: Heartbeat | None) -> tuple[object, str | None]:
        """What changes when an app goes on, and what is wrong if it doesn't; None if it need not."""
        if beat is None or beat.pid != self.pid:
            return None, "no heartbeat of this process"
        term = (beat.state, beat.generation, beat.started_at_ms)
        if beat.state is AppState.STARTING:
            return term, "it is starting"
        if beat.state is not AppState.RUNNING:
            return (*term, beat.updated_at_ms), "no heartbeat" if beat.state is AppState.PAUSED else None
        if beat.caught_up or not beat.latest_offsets:
            return (*term, beat.updated_at_ms), "no heartbeat"
        return (*term, beat.last_progress_ms, beat.restore_remaining), "input waits, but no batch was committed"


@contextmanager
def ended_if_stalled(heartbeats: Mapping[str, Path], settings: AppSettings, clock: Clock) -> Iterator[None]:
    """Ends this process with exit code 75 if one of its apps stalls while the block runs."""
    stalls = _stalls_before(heartbeats.values())
    limit_s = settings.progress_timeout_s * 2 ** min(stalls, _MOST_DOUBLINGS) + settings.trigger_interval_ms / 1000
    progress = Progress(limit_s, clock.monotonic_s(), os.getpid())
    done = threading.Event()

    def watch() -> None:
        while True:
            # Twice as long: the thread is to be the one that ends the process, as it says why.
            faulthandler.dump_traceback_later(2 * limit_s, exit=True)
            if done.wait(_POLL_S):
                return
            beats = {app: read_heartbeat(path) for app, path in heartbeats.items()}
            if (stalled := progress.stalled(beats, clock.monotonic_s())) is not None:
                app, reason = stalled
                _end(app, reason, [*heartbeats.values()], clock.now_ms(), stalls)

    thread = threading.Thread(target=watch, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()


def _stalls_before(paths: Iterable[Path]) -> int:
    """How many processes in a row, up to the one before this, were ended and had committed nothing."""
    beats = (read_heartbeat(path) for path in paths)
    return max((beat.stalls for beat in beats if beat is not None and beat.exit_code == _CODE), default=0)


def _end(app: str, reason: str, paths: Sequence[Path], now_ms: int, before: int) -> None:
    """Says why in log and heartbeats, and leaves at once: what hangs can't be asked to finish."""
    _log.error("app_stalled", app=app, reason=reason, exit_code=_CODE)
    faulthandler.dump_traceback(all_threads=True)
    sys.stdout.flush()
    own = {path: beat for path in paths if (beat := read_heartbeat(path)) is not None and beat.pid == os.getpid()}
    has_committed = any(beat.app == app and beat.batches_total for beat in own.values())
    stalls = 1 if has_committed else before + 1
    for path, beat in own.items():
        error = f"{app}: {reason}" if beat.app != app else reason
        failed = replace(beat, state=AppState.FAILED, updated_at_ms=now_ms, error=error, exit_code=_CODE)
        write_heartbeat(path, replace(failed, stalls=stalls))
    os._exit(_CODE)
