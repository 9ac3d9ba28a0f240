"""The processor time of this process and of all processes that came from it, also of those that left it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import pytest

from harness.meanwhile import repeating

_EVERY_S = 1.0
_MARK = "TESTS_PROCESSOR_TIME"
_Process = tuple[int, float]
"""The id of a process and when it began."""


@dataclass(frozen=True, slots=True)
class _Seen:
    parent: int
    used_s: float
    """With what it has reaped."""


@dataclass(slots=True)
class ProcessorTime:
    """Looks at the processes over and over while it watches.

    A process is known by its parents or, when it has left them, by a mark in its environment. A child that was waited
    for is counted in its parent. A daemon has no parent of ours, so it is counted by itself. What a daemon uses between
    the last look and its end is missing.
    """

    mark: str = field(default_factory=lambda: f"{psutil.Process().pid}-{psutil.Process().create_time()}")
    _ours: dict[_Process, _Seen] = field(default_factory=dict)
    _others: set[_Process] = field(default_factory=set)
    _ended_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks once a second, and marks the processes that are started meanwhile."""
        with pytest.MonkeyPatch.context() as environment, repeating(self._look, _EVERY_S):
            environment.setenv(_MARK, self.mark)
            yield

    def used_s(self) -> float:
        """The seconds until now."""
        self._look()
        with self._lock:
            return self._ended_s + sum(seen.used_s for seen in self._ours.values())

    def _look(self) -> None:
        with self._lock:
            found = self._found()
            pids = {pid for pid, _ in self._ours}
            for process in self._ours.keys() - found.keys():
                seen = self._ours[process]
                if seen.parent not in pids:
                    self._ended_s += seen.used_s
            self._ours = found

    def _found(self) -> dict[_Process, _Seen]:
        running = {
            (process.pid, process.create_time()): process
            for process in psutil.process_iter(["ppid", "cpu_times"])
            if process.info["cpu_times"] is not None
        }
        ours = {key for key, process in running.items() if self._is_ours(key, process)}
        children: dict[int, list[_Process]] = {}
        for key, process in running.items():
            children.setdefault(process.info["ppid"], []).append(key)
        waiting = list(ours)
        while waiting:
            for child in children.get(waiting.pop()[0], []):
                if child not in ours:
                    ours.add(child)
                    waiting.append(child)
        self._others = running.keys() - ours
        return {key: _Seen(running[key].info["ppid"], sum(running[key].info["cpu_times"][:4])) for key in ours}

    def _is_ours(self, key: _Process, process: psutil.Process) -> bool:
        if key in self._ours or process.pid == psutil.Process().pid:
            return True
        if key in self._others:
            return False
        try:
            return process.environ().get(_MARK) == self.mark
        except (psutil.Error, OSError):
            return False
