"""Taking back what a record has changed in a task, in place.

A task that runs a batch again notes how to take back each change of what its operators keep. What it takes to leave a
record out is then what the record itself had changed, however much waits in the task.

Numbers, such as stream time, and lists that only grow are not noted one by one: a mark has them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Any = object()


class Mark(NamedTuple):
    """A place to come back to: how much was noted, the values of attributes, the lengths of lists."""

    noted: int
    values: list[Any]
    lengths: list[int]


class Undo:
    """The changes of one task since the record under way came. Not thread-safe."""

    def __init__(self) -> None:
        self._notes: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._attributes: list[tuple[Any, str]] = []
        self._lists: list[list[Any]] = []
        self._renewals: dict[Callable[[], None], None] = {}

    def keep(self, owner: Any, *attributes: str) -> None:
        """From now on marks have these attributes of an object, whose values don't change in place."""
        self._attributes += [(owner, name) for name in attributes]

    def keep_length(self, rows: list[Any]) -> None:
        """From now on marks have the length of a list that only grows between marks."""
        self._lists.append(rows)

    def add(self, function: Callable[..., object], *arguments: Any) -> None:
        """Notes how to take a change back."""
        self._notes.append((function, arguments))

    def item(self, mapping: MutableMapping[K, V], key: K) -> None:
        """Notes an item of a mapping that is about to change. Its place in the mapping's order is not noted."""
        self._notes.append((_put_back, (mapping, key, mapping.get(key, _ABSENT))))

    def renew(self, start: Callable[[], None]) -> None:
        """Notes that an object of the user's is to be made anew, as nobody knows what has changed in it."""
        self._notes.append((self._renewals.__setitem__, (start, None)))

    def mark(self) -> Mark:
        """A mark of now."""
        values = [getattr(owner, name) for owner, name in self._attributes]
        return Mark(len(self._notes), values, [len(rows) for rows in self._lists])

    def back_to(self, mark: Mark) -> None:
        """Takes back all that has changed since."""
        for function, arguments in reversed(self._notes[mark.noted :]):
            function(*arguments)
        del self._notes[mark.noted :]
        for (owner, name), value in zip(self._attributes, mark.values, strict=False):
            setattr(owner, name, value)
        for rows, length in zip(self._lists, mark.lengths, strict=False):
            del rows[length:]
        # They may read what the task keeps, so they come last.
        renewals, self._renewals = self._renewals, {}
        for start in renewals:
            start()

    def clear(self) -> None:
        """Forgets what was noted: it stays."""
        self._notes.clear()

    def __len__(self) -> int:
        return len(self._notes)


class LastWrites:
    """The order in which keys were last written, also after writes were taken back."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._ranks: dict[Any, int] = {}
        self._last = 0

    def wrote(self, key: Any) -> None:
        """A key is written, or its row goes."""
        self._undo.item(self._ranks, key)
        self._last += 1
        self._ranks[key] = self._last

    def in_order(self, items: Iterable[tuple[K, V]]) -> list[tuple[K, V]]:
        """Items of keys that were written."""
        return sorted(items, key=lambda item: self._ranks[item[0]])


def _put_back(mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    if value is _ABSENT:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def noted(undo: Undo | None, mapping: MutableMapping[K, V], key: K) -> None:
    """Notes an item of a mapping that is about to change, if changes are noted."""
    if undo is not None:
        undo.item(mapping, key)
