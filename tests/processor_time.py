"""The processor time of this process and of all processes that came from it, also of those that left it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from tests.meanwhile import repeating

_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Seen:
    parent: int
    used_s: float
    """With what it has reaped."""


@dataclass(slots=True)
class ProcessorTime:
    """Looks at the processes over and over while it watches.

    A child that was waited for is counted in its parent. A daemon has no parent of ours, so it is counted by itself.
    What a daemon uses between the last look and its end is missing.
    """

    _processes: dict[tuple[int, float], _Seen] = field(default_factory=dict)
    _ended_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks once a second."""
        with repeating(self._look, _EVERY_S):
            yield

    def used_s(self) -> float:
        """The seconds until now."""
        self._look()
        with self._lock:
            return self._ended_s + sum(seen.used_s for seen in self._processes.values())

    def _look(self) -> None:
        with self._lock:
            found = self._found()
            pids = {pid for pid, _ in self._processes}
            for process in self._processes.keys() - found.keys():
                seen = self._processes[process]
                if seen.parent not in pids:
                    self._ended_s += seen.used_s
            self._processes = found

    def _found(self) -> dict[tuple[int, float], _Seen]:
        """Those that were known, and the descendants of all of these."""
        running = {
            (process.pid, process.create_time()): process.info
            for process in psutil.process_iter(["ppid", "cpu_times"])
            if process.info["cpu_times"] is not None
        }
        ours = {key for key in running if key in self._processes or key[0] == psutil.Process().pid}
        children: dict[int, list[tuple[int, float]]] = {}
        for key, info in running.items():
            children.setdefault(info["ppid"], []).append(key)
        waiting = list(ours)
        while waiting:
            for child in children.get(waiting.pop()[0], []):
                if child not in ours:
                    ours.add(child)
                    waiting.append(child)
        return {key: _Seen(running[key]["ppid"], sum(running[key]["cpu_times"][:4])) for key in ours}
