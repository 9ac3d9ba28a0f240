"""A thread that writes a running app's heartbeat, busy or idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import structlog

from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.errors import StateError
from storekeeper.program import exit_code_of

INTERVAL_S = 2.0
"""Far below the time after which a heartbeat is stale, and rare enough to cost nothing."""

_MAX_ERROR_CHARS = 400

_log = structlog.get_logger(__name__)

Refresh = Callable[[Heartbeat], Heartbeat]
"""Brings a heartbeat up to date. May raise when Spark is gone; the beat then repeats the last values."""


class HeartbeatWriter:
    """Writes a heartbeat at each interval and at each change of state. Thread-safe. `stop` it at the end."""

    def __init__(self, path: Path, first: Heartbeat, *, interval_s: float | None = None, clock: Clock) -> None:
        self._path = path
        self._heartbeat = first
        self._interval_s = INTERVAL_S if interval_s is None else interval_s
        self._clock = clock
        self._refresh: Refresh = lambda heartbeat: heartbeat
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Writes beats while a block runs; the last one says whether it failed."""
        self.start()
        try:
            yield self
        except BaseException as error:
            exit_code = exit_code_of(error) if isinstance(error, StateError) else None
            self.enter(AppState.FAILED, error=described(error), exit_code=exit_code)
            raise
        else:
            self.enter(AppState.STOPPED)
        finally:
            self.stop()

    def start(self) -> None:
        """Writes the first beat and starts the thread."""
        self.beat()
        self._thread.start()

    def refresh_with(self, refresh: Refresh) -> None:
        """Sets the function that brings later beats up to date."""
        self._refresh = refresh

    def enter(
        self, state: AppState, *, jvm_pid: int | None = None, error: str | None = None, exit_code: int | None = None
    ) -> None:
        """Changes the app's state, and writes a beat at once."""
        with self._lock:
            known_jvm = self._heartbeat.jvm_pid if jvm_pid is None else jvm_pid
            self._heartbeat = replace(self._heartbeat, state=state, jvm_pid=known_jvm, error=error, exit_code=exit_code)
        self.beat()

    def become(self, heartbeat: Heartbeat) -> None:
        """Continues with the heartbeat of another run in the same process, and writes a beat at once."""
        with self._lock:
            self._refresh = lambda same: same
            self._heartbeat = heartbeat
        self.beat()

    def beat(self) -> None:
        """Writes one beat now."""
        with self._lock:
            try:
                self._heartbeat = self._refresh(self._heartbeat)
            except Exception:  # py4j fails in many ways once the JVM is gone; the main thread reports it
                _log.debug("progress_unavailable", exc_info=True)
            self._heartbeat = replace(self._heartbeat, updated_at_ms=self._clock.now_ms())
            write_heartbeat(self._path, self._heartbeat)

    def stop(self) -> None:
        """Ends the thread. The last beat stays."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.beat()
            except OSError:
                _log.exception("heartbeat_not_written", path=str(self._path))


def described(error: BaseException) -> str:
    """An error in one line that is safe to show: the text of an error that isn't ours might quote a record."""
    text = str(error).strip() if isinstance(error, StateError) else ""
    name = type(error).__name__
    return f"{name}: {text}"[:_MAX_ERROR_CHARS] if text else name
