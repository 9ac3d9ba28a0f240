"""Which windows are still to be emitted on close, in the order in which they close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from storekeeper.stores.windowed import Windowed
from storekeeper.topology.undo import Undo

K = TypeVar("K")


class ClosingIndex(Generic[K]):
    """Open windows by the time that decides about their closing: a window's start, a session's end.

    It saves emission on close from scanning the whole store for each record. In memory: one entry for each window that
    isn't emitted yet. Not thread-safe.
    """

    def __init__(self, key_bytes: Callable[[K], Any] = lambda key: key, undo: Undo | None = None) -> None:
        """Begins empty. Windows of keys with the same bytes, and of the same times, are the same window.

        `undo` notes how to take changes back.
        """
        self._undo = undo
        self._windows: SortedDict = SortedDict()
        self._key_bytes = key_bytes

    def __len__(self) -> int:
        return sum(len(windows) for windows in self._windows.values())

    def add(self, time_ms: int, window: Windowed[K]) -> None:
        """Remembers a window; one that is known already stays as it is."""
        windows = self._windows.get(time_ms)
        if windows is None:
            windows = self._windows[time_ms] = {}
        identity = self._identity(window)
        if identity not in windows:
            windows[identity] = window
            if self._undo is not None:
                self._undo.add(self._forget, time_ms, identity)

    def discard(self, time_ms: int, window: Windowed[K]) -> None:
        """Forgets a window, if it is known."""
        known = self._forget(time_ms, self._identity(window))
        if known is not None and self._undo is not None:
            self._undo.add(self.add, time_ms, known)

    def take_until(self, time_ms: int) -> list[Windowed[K]]:
        """Takes out all windows up to `time_ms`, inclusive, in the order of their times.

        Those of one time come in the order of start and key, so that results don't depend on the order of arrival;
        keys that have no order come as they arrived.
        """
        taken: list[Windowed[K]] = []
        while self._windows and self._windows.peekitem(0)[0] <= time_ms:
            closed_ms, windows = self._windows.popitem(0)
            if self._undo is not None:
                self._undo.add(self._windows.__setitem__, closed_ms, windows)
            taken.extend(_in_key_order(list(windows.values())))
        return taken

    def _forget(self, time_ms: int, identity: tuple[Any, int, int]) -> Windowed[K] | None:
        windows = self._windows.get(time_ms)
        if windows is None:
            return None
        window: Windowed[K] | None = windows.pop(identity, None)
        if not windows:
            del self._windows[time_ms]
        return window

    def _identity(self, window: Windowed[K]) -> tuple[Any, int, int]:
        return self._key_bytes(window.key), window.start_ms, window.end_ms


def _in_key_order(windows: list[Windowed[K]]) -> list[Windowed[K]]:
    try:
        return sorted(windows, key=lambda window: (window.start_ms, window.key))
    except TypeError:
        return windows
