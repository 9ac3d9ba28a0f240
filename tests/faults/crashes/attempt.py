"""One life of an app, from its start to its death."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.heartbeat import AppState
from tests.broker import Broker
from tests.faults.crashes.points import BrokerCrash, Crash, RandomCrash, Round, Victim
from tests.integration.app_process import AppProcess, AppProcesses

_PAUSE_S = 0.02
_STARTS_WITHIN_S = 180.0
_REACHED_WITHIN_S = 120.0
_ENDS_WITHIN_S = 60.0
_ENOUGH_BATCHES = 6
"""If so many batches went by, none of their tasks had the slot in which the app was to die."""
_RECOVERS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one round.

    `hit` says that what was to happen did: the named point was reached, or the kill met a running app. `running_s` is
    the time from the start to where the app said that it runs, `first_batch_s` to its first committed batch; None if it
    died before.
    """

    app: str
    round: Round
    hit: bool
    exit_code: int | None
    running_s: float | None
    first_batch_s: float | None


@dataclass(slots=True)
class Attempt:
    """An app's process that is about to die."""

    process: AppProcess
    checkpoint: SparkCheckpoint
    _started_s: float = field(default_factory=time.monotonic)
    _before: int = -1
    _batches: int = 0
    _running_s: float | None = None
    _first_batch_s: float | None = None

    def __post_init__(self) -> None:
        last = self.checkpoint.last_committed_batch()
        self._before = -1 if last is None else last

    def live(self, round_: Round, broker: Broker, broker_lock: threading.Lock) -> Outcome:
        """Lets the round happen and returns when nothing of the app is left alive but, maybe, its JVM as a zombie."""
        self._wait(lambda: self._running_s is not None, _STARTS_WITHIN_S)
        if isinstance(round_, Crash):
            hit = not self._wait(lambda: self._batches >= _ENOUGH_BATCHES, _REACHED_WITHIN_S)
            victim = Victim.BOTH
        else:
            hit = self._wait(lambda: False, round_.after_s)
            victim = round_.victim if isinstance(round_, RandomCrash) else Victim.BOTH
            if isinstance(round_, BrokerCrash):
                with broker_lock:
                    broker.kill()
                    time.sleep(round_.dead_s)
                    broker.start()
                self._wait(lambda: False, _RECOVERS_WITHIN_S)
        if self.process.process.poll() is None:
            kill(self.process, victim)
        code = self.process.process.wait(_ENDS_WITHIN_S)
        return Outcome(self.process.app, round_, hit, code, self._running_s, self._first_batch_s)

    def _wait(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the app is still alive when `reached` holds or the time is over."""
        deadline = time.monotonic() + timeout_s
        while self.process.process.poll() is None:
            self._look()
            if reached() or time.monotonic() >= deadline:
                return True
            time.sleep(_PAUSE_S)
        return False

    def _look(self) -> None:
        now_s = time.monotonic() - self._started_s
        if self._running_s is None:
            beat = self.process.heartbeat
            if beat is not None and beat.state == AppState.RUNNING:
                self._running_s = now_s
        last = self.checkpoint.last_committed_batch()
        if last is not None:
            self._batches = last - self._before
            if self._batches and self._first_batch_s is None:
                self._first_batch_s = now_s


def kill(process: AppProcess, victim: Victim) -> None:
    """Kills the victim of an app's process from outside. Nothing happens to those that are dead already."""
    driver = psutil.Process(process.process.pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        jvms = [child for child in driver.children() if child.name() == "java"]
        workers = [
            worker
            for jvm in jvms
            for daemon in jvm.children()
            for worker in daemon.children()
            if victim == Victim.WORKER
        ]
        for each in [*(jvms if victim in (Victim.JVM, Victim.BOTH) else ()), *workers]:
            each.kill()
        # Without workers there is nobody to die in their place.
        if victim in (Victim.DRIVER, Victim.BOTH) or (victim == Victim.WORKER and not workers):
            driver.kill()


def start(apps: AppProcesses, app: str, round_: Round) -> AppProcess:
    """Starts an app for a round: armed if it is to die at a named point."""
    if isinstance(round_, Crash):
        arguments = (app, round_.point, round_.victim, str(round_.skip), str(round_.slot))
        return apps.start_module(app, "tests.faults.crashes", *arguments)
    return apps.start(app)
