"""A kill that waits for somebody to come to its point: a file that the first one there takes.

The file names the point and the victim. The process that takes it kills; no signal from outside is needed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.crashes.points import Kill, Point, Victim

LIFE = "STOREKEEPER_CRASH_LIFE"
"""In the environment of all processes of one life: those of an earlier one take nothing."""

FOLDER = "STOREKEEPER_CRASH_FOLDER"
_WORKERS = {"storekeeper.engine.worker_daemon", "storekeeper.engine.worker_daemon_of_tables"}
_DRIVERS = "harness.crashes"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is.

    Attributes:
        app: the app that it works for.
        partition: of its task; None in the driver.
        stateful: whether its task has local stores.
    """

    app: str = ""
    partition: int | None = None
    stateful: bool = False


class Armed:
    """The kills that wait in a folder.

    Args:
        folder: where they are.
        life: the life that they are for.
    """

    def __init__(self, folder: Path, life: str) -> None:
        self._folder = folder
        self._life = life

    @classmethod
    def here(cls) -> Armed:
        """Those that wait for this process."""
        return cls(Path(os.environ[FOLDER]), os.environ[LIFE])  # noqa: TID251 - set by the campaign for this alone

    def arm(self, number: int, kill: Kill, broker_pid: int | None) -> None:
        """Lets a kill wait for its point. There is one at a time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / "draft"
        draft.write_text(json.dumps({**asdict(kill), "life": self._life, "broker_pid": broker_pid}))
        draft.rename(self._folder / f"armed-{number}")

    def is_taken(self, number: int) -> bool:
        """Whether somebody came to its point."""
        return (self._folder / f"taken-{number}").exists()

    def withdraw(self, number: int) -> bool:
        """Lets it wait no longer; False if somebody took it before."""
        try:
            (self._folder / f"armed-{number}").unlink()
        except FileNotFoundError:
            return False
        return True

    def waits_at(self, point: Point, place: Place = Place()) -> bool:
        """Whether a kill waits for who is at a place."""
        return self._waiting(point, place) is not None

    def at(self, point: Point, place: Place = Place()) -> None:
        """Kills if a kill waits here. Returns if it doesn't, or if this process is left alive."""
        found = self._waiting(point, place)
        if found is None:
            return
        file, armed = found
        try:
            file.rename(file.with_name(file.name.replace("armed", "taken")))
        except FileNotFoundError:  # another one was here first
            return
        sys.stderr.write(f"dying: {point}, {armed['victim']}, {place}, {self._life}\n")
        sys.stderr.flush()
        kill_from_inside(Victim(armed["victim"]), armed["broker_pid"])

    def _waiting(self, point: Point, place: Place) -> tuple[Path, dict[str, Any]] | None:
        for file in self._folder.glob("armed-*"):
            try:
                armed: dict[str, Any] = json.loads(file.read_text())
            except FileNotFoundError:
                continue
            in_place = all(armed[name] in (None, at) for name, at in asdict(place).items())
            if in_place and (armed["point"], armed["life"]) == (point, self._life):
                return file, armed
        return None


def kill_from_inside(victim: Victim, broker_pid: int) -> None:
    """Kills the victim, as seen from the driver or from one of its workers."""
    if victim == Victim.BROKER:
        os.kill(broker_pid, signal.SIGKILL)
        return
    here = psutil.Process()
    is_worker = not _WORKERS.isdisjoint(here.cmdline())
    if victim != Victim.WORKER:
        jvm = _jvm_above(here) if is_worker else _jvm_below(here)
        driver = jvm.parent() if is_worker else here
        if victim in (Victim.JVM, Victim.BOTH):
            jvm.kill()
        # A zombie's JVM has another parent.
        if victim in (Victim.DRIVER, Victim.BOTH) and driver is not None and _DRIVERS in driver.cmdline():
            driver.kill()
    if is_worker and victim in (Victim.WORKER, Victim.BOTH):
        os.kill(os.getpid(), signal.SIGKILL)


def _jvm_above(process: psutil.Process) -> psutil.Process:
    return next(parent for parent in process.parents() if parent.name() == "java")


def _jvm_below(process: psutil.Process) -> psutil.Process:
    return next(child for child in process.children() if child.name() == "java")
