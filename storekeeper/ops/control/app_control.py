"""Starts and stops one app. A start is complete only when the app's own heartbeat says that it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storekeeper.apps.settings import ClientSettings
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, Offsets, heartbeat_problem, read_heartbeat
from storekeeper.errors import ConfigurationError, RetriableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ENDED_STATES, ProcessInfo, SupervisorRpc
from storekeeper.private_files import private_folder
from storekeeper.program import NO_RESTART

APP_STOP_TIMEOUT_S = 120.0
"""How long an app may take to end: twice the time after which supervisor kills it."""
_PAUSE_S = 0.5
_RESPAWN_S = 2.0
_START_SHARE = 0.75
"""Of the time that the platform may take to become healthy: how long an app may take until it runs."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    start_s: float
    stop_s: float


class AppControl:
    """Drives the app `name` through its supervisor. Not thread-safe; the supervisor serialises several of them.

    `heartbeat` reads the app's last heartbeat, which may come from an earlier process. The file `stopped` is there
    while a person wants the app to be stopped.
    """

    def __init__(
        self,
        name: str,
        *,
        supervisor: SupervisorRpc,
        heartbeat: Callable[[], Heartbeat | None],
        stopped: Path,
        patience: Patience,
        clock: Clock,
        pause: Callable[[float], object],
    ) -> None:
        self._name = name
        self._supervisor = supervisor
        self.heartbeat = heartbeat
        self._stopped = stopped
        self._patience = patience
        self._clock = clock
        self._pause = pause
        self._came_back = False

    def runs(self) -> bool:
        """Whether the supervised process runs and has a fresh heartbeat of its own that says RUNNING."""
        process = self._supervisor.process(self._name)
        if process.state != "RUNNING":
            return False
        return heartbeat_problem(self.heartbeat(), process.pid, self._clock.now_ms()) is None

    def has_started(self) -> bool:
        """Whether the app runs after a start was begun.

        Raises:
            AppFailedError: it ended instead; a retry is of no use before something is changed.
        """
        if self.runs():
            return True
        process = self._supervisor.process(self._name)
        if process.state in ENDED_STATES and not _comes_back(process):
            raise AppFailedError(self._failure(process))
        return False

    def has_gone_on(self, drained: Offsets) -> bool:
        """Whether the app runs after a start was begun, and has made progress from its `drained` offsets.

        Raises:
            AppFailedError: it ended instead, or a partition has an earlier offset than `drained`, or none.
        """
        if not self.has_started():
            return False
        beat = self.heartbeat()
        if beat is None or not beat.offsets:
            return False
        for topic, partitions in drained.items():
            for partition, offset in partitions.items():
                reached = beat.offsets.get(topic, {}).get(partition)
                if reached is None or reached < offset:
                    raise AppFailedError(
                        f"{self._name} was drained at offset {offset} of {topic} partition {partition}, but goes on "
                        f"at {reached}: see which checkpoint and generation it uses"
                    )
        return beat.last_progress_ms is not None

    def has_ended(self) -> bool:
        """Whether a stopped app has ended; stops it again if the supervisor was about to restart it."""
        process = self._supervisor.process(self._name)
        if _comes_back(process):
            self._pause(_RESPAWN_S)
            self._came_back |= self._supervisor.stop(self._name)
            process = self._supervisor.process(self._name)
        return process.state in ENDED_STATES

    def restart(self) -> bool:
        """Drains the app if it runs, then starts it. Returns True; raises what `drain` and `start` raise."""
        self.drain()
        self._start()
        return True

    def upgrade(self) -> bool:
        """Drains the app and starts it, and waits until it reads on from where it was drained. Returns True.

        Raises what `drain` and `has_gone_on` raise.

        Raises:
            AppTimeoutError: it didn't read on in time.
        """
        self.drain()
        beat = self.heartbeat()
        drained = {} if beat is None else beat.offsets
        self._begin()
        late = f"doesn't run and read on after {self._patience.start_s:.0f} s"
        self._await(lambda: self.has_gone_on(drained), self._patience.start_s, late)
        return True

    def start(self) -> bool:
        """Starts an ended app, restarts a stuck one, and waits until it runs. Returns whether it did anything.

        Raises:
            AppFailedError: as `has_started` does.
            AppTimeoutError: it didn't run in time.
        """
        if self.runs():
            return False
        process = self._supervisor.process(self._name)
        age_s = (self._clock.now_ms() - process.started_at_ms) / 1000
        # Of a process that started while the clock was ahead, nobody knows the age.
        is_stuck = process.state == "RUNNING" and not 0 <= age_s <= self._patience.start_s
        return self.restart() if is_stuck else self._start()

    def _start(self) -> bool:
        if self._supervisor.process(self._name).state == "STOPPING":
            self._await_end()
        started = self._begin()
        self._await(self.has_started, self._patience.start_s, f"doesn't run after {self._patience.start_s:.0f} s")
        return started

    def stop(self) -> bool:
        """Drains the app, and notes that it is to stay stopped. Returns whether it ran; raises what `drain` raises."""
        private_folder(self._stopped.parent)
        self._stopped.touch(0o600)
        return self.drain()

    def drain(self) -> bool:
        """Lets the app finish its batch and waits for its end. Returns whether it ran.

        Raises:
            AppTimeoutError: it didn't end in time.
        """
        ran = self._supervisor.stop(self._name)
        self._await_end()
        return ran or self._came_back

    def _begin(self) -> bool:
        self._stopped.unlink(missing_ok=True)
        return self._supervisor.start(self._name)

    def _await_end(self) -> None:
        self._await(self.has_ended, self._patience.stop_s, f"didn't end within {self._patience.stop_s:.0f} s")

    def _await(self, reached: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline_s = self._clock.monotonic_s() + timeout_s
        while not reached():
            if self._clock.monotonic_s() >= deadline_s:
                situation = self._situation(self._supervisor.process(self._name))
                raise AppTimeoutError(f"{self._name} {what}. {situation}")
            self._pause(_PAUSE_S)

    def _failure(self, process: ProcessInfo) -> str:
        return f"{self._name} ended with exit code {process.exit_status} instead of running. {self._situation(process)}"

    def _situation(self, process: ProcessInfo) -> str:
        beat = self.heartbeat()
        explanation = (
            "It left no heartbeat." if beat is None else f"Its heartbeat says {beat.state}: {beat.error or 'no error'}."
        )
        log = self._supervisor.log_end(self._name)
        return f"The supervisor says {process.state}. {explanation} The end of its log:\n{log}"


def _comes_back(process: ProcessInfo) -> bool:
    return process.state == "EXITED" and process.exit_status not in {0, *NO_RESTART}


def app_control(
    app: str,
    settings: ClientSettings,
    supervisor: SupervisorRpc,
    pause: Callable[[float], object] = time.sleep,
) -> AppControl:
    """The control of `app`, or of the shared driver; see `AppControl`."""
    platform, clock = PlatformSettings.load(run_dir=settings.run_dir), SystemClock()
    return AppControl(
        app,
        supervisor=supervisor,
        heartbeat=lambda: _heartbeat(app, settings, clock),
        stopped=RunLayout(settings.run_dir).stopped / app,
        patience=Patience(_START_SHARE * platform.start_timeout_s, APP_STOP_TIMEOUT_S),
        clock=clock,
        pause=pause,
    )


def _heartbeat(app: str, settings: ClientSettings, clock: Clock) -> Heartbeat | None:
    return shared_beat(
        app,
        [read_heartbeat(settings.heartbeat_file(name)) for name in PlatformApps.of(settings.run_dir).apps_of(app)],
        clock.now_ms(),
    )


def shared_beat(name: str, beats: Sequence[Heartbeat | None], now_ms: int) -> Heartbeat | None:
    """The heartbeat of a process: RUNNING if all apps are, the update time that is furthest from now, each partition's
    lowest offset. None if an app has left none. If the beats have different pids, the pid and state of the one started
    first.
    """
    there = [beat for beat in beats if beat is not None]
    if not there or len(there) < len(beats):
        return None
    shown = min(there, key=lambda beat: beat.started_at_ms)
    if len({beat.pid for beat in there}) == 1:
        shown = next((beat for beat in there if beat.state is not AppState.RUNNING), shown)
    progress = [beat.last_progress_ms for beat in there]
    return replace(
        shown,
        app=name,
        # One of a later time is not a fresh one: see `is_silent`.
        updated_at_ms=max((beat.updated_at_ms for beat in there), key=lambda at_ms: abs(now_ms - at_ms)),
        last_progress_ms=None if None in progress else min(moment for moment in progress if moment is not None),
        offsets=_least([beat.offsets for beat in there]),
    )


def _least(positions: Sequence[Offsets]) -> Offsets:
    lowest: dict[str, dict[str, int]] = {}
    for position in positions:
        for topic, offsets in position.items():
            lowest[topic] = _least_of(lowest.get(topic, {}), offsets)
    return lowest


def _least_of(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{number: min(offset, one.get(number, offset)) for number, offset in other.items()}}


class AppFailedError(ConfigurationError):
    """An app ended while it was to start. The message has its last heartbeat's error and the end of its log."""


class AppTimeoutError(RetriableError):
    """An app took too long to start or to stop. The message has its last known state."""
