"""A task's state: bytes by bytes, kept by whoever runs the task, and one batch's changes to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class TaskState(Protocol):
    """The state of one task. Spark's state store behind a real app, a dictionary in a test."""

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value at `key`."""
        ...

    def remove(self, key: bytes) -> None:
        """Removes `key`; no error if it isn't there."""
        ...


class BatchState:
    """The state as a batch sees and changes it. Each key is read and written at most once, for either costs a call."""

    def __init__(self, state: TaskState) -> None:
        self._state = state
        self._seen: dict[bytes, bytes | None] = {}
        self._changed: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        """The value at `key` after this batch's changes so far, or None."""
        try:
            return self._seen[key]
        except KeyError:
            value = self._seen[key] = self._state.get(key)
            return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets the value at `key`; None removes it."""
        self._seen[key] = value
        self._changed.add(key)

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What the batch changed, in the order of the keys."""
        for key in sorted(self._changed):
            yield key, self._seen[key]

    def flush(self) -> None:
        """Writes the changes through."""
        for key, value in self.changes():
            if value is None:
                self._state.remove(key)
            else:
                self._state.put(key, value)


class MemoryTaskState:
    """A task's state in a dictionary: for tests, and to try a processor out."""

    def __init__(self, rows: dict[bytes, bytes] | None = None) -> None:
        self.rows: dict[bytes, bytes] = dict(rows or {})

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        return self.rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value at `key`."""
        self.rows[key] = value

    def remove(self, key: bytes) -> None:
        """Removes `key`; no error if it isn't there."""
        self.rows.pop(key, None)

    def copy(self) -> MemoryTaskState:
        """A state of its own with the same rows."""
        return MemoryTaskState(self.rows)
