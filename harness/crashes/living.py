"""The lives of one process of apps: started, killed at one point after the other, and started again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import psutil
from confluent_kafka import KafkaException

from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.crashes.armed import FOLDER, LIFE, Armed
from harness.crashes.harm import Harm, Stores
from harness.crashes.points import FATAL, IN_RESTORE, PROCESSES, Kill, Life, Point, Victim, again
from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.program import NO_RESTART

_PAUSE_S = 0.05
_STARTS_WITHIN_S = 600.0
_REACHED_WITHIN_S = 180.0
_ENDS_WITHIN_S = 240.0
_ZOMBIES_END_WITHIN_S = 20.0
_BROKER_DEAD_S = 1.0
_BROKER_STARTS = 5
_TRIES = 12
_UNASKED = (0, *NO_RESTART)
"""With these exit codes no app may end unasked: supervisor would not start it again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one kill.

    Attributes:
        app: whose.
        life: the number of its life.
        kill: which.
        hit: whether somebody was killed: at its point, or a running app at any moment.
        took_s: how long that took.
    """

    app: str
    life: int
    kill: Kill
    hit: bool
    took_s: float

    def __str__(self) -> str:
        end = "killed" if self.hit else "nobody killed"
        where = f"{self.kill.victim}, {self.kill.point} of {self.kill.app or 'any app'}"
        return f"{self.app}, life {self.life}: {where}: {end} after {self.took_s:.1f} s"


@dataclass(slots=True)
class Living:
    """A process of one or more apps that is killed over and over.

    Attributes:
        outcomes: of all kills so far.
        harms: what was done to its local stores.
        starts_s: how long it took from each start to where all of its apps said that they run.
        complaints: what must not happen.
        missed: lives of the kills that met nobody, as when the app ended before.
    """

    app: str
    apps: AppProcesses
    broker: Broker
    broker_lock: threading.Lock
    stores: Mapping[str, Stores]
    outcomes: list[Outcome] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    missed: list[Life] = field(default_factory=list)
    _kills: Iterator[int] = field(default_factory=count)

    @property
    def hits(self) -> list[Outcome]:
        """The kills that met somebody."""
        return [outcome for outcome in self.outcomes if outcome.hit]

    def live(self, number: int, life: Life) -> None:
        """Lets one life happen; returns when nothing of the app is left alive but, maybe, its JVM as a zombie."""
        if life.harm is not None:
            life = self._harmed(life, life.harm)
            if not life.kills:
                return  # nothing would be restored
        met = len(self.outcomes)
        one = _One(self, number, life)
        try:
            for kill in life.kills:
                if one.is_over:
                    break
                outcome = one.suffer(kill)
                self.outcomes.append(outcome)
                print(outcome, flush=True)
        finally:
            code = one.end()
        if code in _UNASKED:
            self.complaints.append(f"{self.app}, {life}: it ended with {code}")
        hit = Counter(outcome.kill for outcome in self.outcomes[met:] if outcome.hit)
        missed = tuple((Counter(life.kills) - hit).elements())
        if missed:
            self.missed.append(again(life, missed))

    def _harmed(self, life: Life, harm: Harm) -> Life:
        """The life with what was harmed: where there is nothing to be harmed, nothing would be restored."""
        self._end_zombies()
        for stores in self.stores.values():
            stores.keep()
        harmed = [kill.app for kill in life.kills if kill.point in IN_RESTORE and self.stores[str(kill.app)].harm(harm)]
        self.harms += [harm] * len(harmed)
        kills = tuple(kill for kill in life.kills if kill.point not in IN_RESTORE or kill.app in harmed)
        return replace(life, kills=kills)

    def _end_zombies(self) -> None:
        """Returns when no process of an earlier life is there: none may have a store open that is to be harmed."""
        deadline = time.monotonic() + _ZOMBIES_END_WITHIN_S
        while left := list(self._processes()):
            if time.monotonic() > deadline:
                for process in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
            time.sleep(_PAUSE_S)

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                own = environment.get(FOLDER) == str(self.folder)
                if own and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    @property
    def folder(self) -> object:
        """Where its kills wait."""
        return self.apps.run_dir / "armed" / self.app


class _One:
    """One life, from its start on."""

    def __init__(self, living: Living, number: int, life: Life) -> None:
        self._living = living
        self._number = number
        self._life = life
        name = f"{living.app}-{number}"
        folder = living.apps.run_dir / "armed" / living.app
        self._armed = Armed(folder, name)
        first = life.kills[0]
        # The tasks of several apps restore at the same time.
        at_once = [kill for kill in life.kills if kill == first or kill.point in IN_RESTORE]
        self._pending = {
            kill: self._arm(kill)
            for kill in at_once
            if kill.point != Point.ANY and kill.victim != Victim.BROKER and not kill.pause_s
        }
        own = {LIFE: name, FOLDER: str(folder)}
        settings = {variable.removeprefix("STOREKEEPER_").lower(): value for variable, value in own.items()}
        master = f"local[2,{_TRIES}]" if life.retries else "local[2]"
        self._began_s = time.monotonic()
        self._running_s: float | None = None
        self._process: AppProcess = living.apps.start_module(
            living.app, "harness.crashes", living.app, spark_master=master, **settings
        )

    @property
    def is_over(self) -> bool:
        """Whether its driver is dead."""
        return self._process.process.poll() is not None

    def suffer(self, kill: Kill) -> Outcome:
        """Lets a kill happen, or gives up on it after a while."""
        began_s = time.monotonic()
        if kill.victim == Victim.BROKER:
            with self._living.broker_lock:
                hit = self._killed(kill)
                if hit:
                    self._living.broker.kill()  # it was killed just now, and may need a moment to be gone
                    time.sleep(_BROKER_DEAD_S)
                    self._start_broker()
        else:
            hit = self._killed(kill)
        # A driver of several apps starts the one again that failed.
        ends_alone = not self._life.retries and len(PROCESSES[self._living.app]) == 1
        if hit and (kill.victim in FATAL or (kill.victim == Victim.WORKER and ends_alone)):
            self._wait(lambda: False, _ENDS_WITHIN_S)
        return Outcome(self._living.app, self._number, kill, hit, time.monotonic() - began_s)

    def end(self) -> int:
        """Kills what is left of its driver and JVM; the driver's exit code."""
        if not self.is_over:
            kill_from_outside(self._process, Victim.BOTH)
        return self._process.process.wait(_ENDS_WITHIN_S)

    def _start_broker(self) -> None:
        """Starts it, again if it does not answer in time: the machine may be busy."""
        for _ in range(_BROKER_STARTS - 1):
            with contextlib.suppress(KafkaException):
                return self._living.broker.start()
        return self._living.broker.start()

    def _killed(self, kill: Kill) -> bool:
        if kill.point == Point.ANY:
            self._wait(lambda: self._running_s is not None, _STARTS_WITHIN_S)
            alive = self._wait(lambda: False, kill.pause_s)
            if alive and kill.victim == Victim.BROKER:
                self._living.broker.kill()
            return alive and (kill.victim == Victim.BROKER or kill_from_outside(self._process, kill.victim))
        number, armed_s = self._pending.pop(kill, None), self._began_s
        if number is None:
            if not self._wait(lambda: False, kill.pause_s):
                return False
            number, armed_s = self._arm(kill), time.monotonic()

        def is_over() -> bool:
            since_s = None if self._running_s is None else max(armed_s, self._running_s)
            late = since_s is not None and time.monotonic() > since_s + _REACHED_WITHIN_S
            return late or self._armed.is_taken(number)

        self._wait(is_over, _STARTS_WITHIN_S + _REACHED_WITHIN_S)
        return not self._armed.withdraw(number)

    def _arm(self, kill: Kill) -> int:
        number = next(self._living._kills)
        # Another app's kill may have just ended the broker: only who holds the lock may ask for its process.
        broker_pid = self._living.broker.pid if kill.victim == Victim.BROKER else None
        self._armed.arm(number, kill, broker_pid)
        return number

    def _wait(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the app is still alive when `reached` holds or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not self.is_over:
            self._look()
            if reached() or time.monotonic() >= deadline:
                return True
            time.sleep(_PAUSE_S)
        return False

    def _look(self) -> None:
        if self._running_s is None:
            process = self._process
            apps = [AppProcess(app, process.process, process.run_dir) for app in PROCESSES[process.app]]
            beats = [app.heartbeat for app in apps]
            if all(beat is not None and beat.state == AppState.RUNNING for beat in beats):
                self._running_s = time.monotonic()
                self._living.starts_s.append(self._running_s - self._began_s)


def kill_from_outside(process: AppProcess, victim: Victim) -> bool:
    """Kills the victim of an app's process; whether there was one."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        driver = psutil.Process(process.process.pid)
        jvms = [child for child in driver.children() if child.name() == "java"]
        if victim == Victim.WORKER:
            found = [worker for jvm in jvms for daemon in jvm.children() for worker in daemon.children()]
        else:
            found = jvms if victim in (Victim.JVM, Victim.BOTH) else []
            found += [driver] if victim in (Victim.DRIVER, Victim.BOTH) else []
    for each in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return bool(found)
