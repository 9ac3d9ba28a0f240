"""Iterators that pin resources, also those of decoded rows: how many are open, and how leaked ones are found."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self, TypeVar

from storekeeper.errors import IteratorClosedError

Row = tuple[bytes, bytes]
T = TypeVar("T")


class ClosingIterator(Iterator[T], ABC):
    """An iterator that pins resources. A context manager: leaving it, or exhausting it, frees them.

    Raises `IteratorClosedError` when used after its own close or after its store's close. Not thread-safe.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True after its own or its store's close; an exhausted iterator is not closed."""

    @abstractmethod
    def close(self) -> None:
        """Frees what it pins. Safe to call twice."""

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OpenIterators:
    """The open iterators of one store.

    An iterator leaves the registry when it is exhausted or closed. One that is garbage-collected while open is
    counted as leaked: its resources are free again, but a `with` is missing. Safe to read from any thread.

    Attributes:
        shut: whether the store was closed.
    """

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[RowIterator]] = {}
        self._tokens = itertools.count()
        self._leaked = 0
        self.shut = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def leaked_total(self) -> int:
        """How many were dropped without being exhausted or closed."""
        return self._leaked

    def enter(self, iterator: RowIterator) -> int:
        """Registers an iterator and returns the token to leave with."""
        token = next(self._tokens)
        self._open[token] = weakref.ref(iterator)
        return token

    def leave(self, token: int) -> None:
        """Forgets an iterator that was closed or exhausted. Safe to call twice."""
        self._open.pop(token, None)

    def leak(self, token: int) -> None:
        """Counts an iterator that went away while it was open."""
        if self._open.pop(token, None) is not None:
            self._leaked += 1

    def shut_down(self) -> None:
        """Closes every open iterator for the store's close: any next use raises `IteratorClosedError`."""
        self.shut = True
        self.close_all()

    def close_all(self) -> None:
        """Closes every open iterator: their next use raises `IteratorClosedError`."""
        for reference in list(self._open.values()):
            iterator = reference()
            if iterator is not None:
                iterator.close()
        self._open.clear()


def _raise_closed() -> NoReturn:
    raise IteratorClosedError("this iterator was closed, or its store was; open a new one")


class RowIterator(ClosingIterator[Row]):
    """Rows from a backend's generator, registered while it is open: the `BytesIterator` of every backend.

    The generator frees what it pins in its `finally`. Only `close` may come from another thread.
    """

    __slots__ = ("__weakref__", "_exhausted", "_registry", "_rows", "_token")

    def __init__(self, rows: Iterator[Row], registry: OpenIterators) -> None:
        self._rows: Iterator[Row] | None = rows
        self._exhausted = False
        self._registry = registry
        self._token = registry.enter(self)

    @property
    def closed(self) -> bool:
        """True after its own or its store's close."""
        return self._registry.shut or (self._rows is None and not self._exhausted)

    def __next__(self) -> Row:
        rows = self._rows
        if rows is None:
            if self._exhausted and not self._registry.shut:
                raise StopIteration
            _raise_closed()
        try:
            return next(rows)
        except StopIteration:
            self._exhausted = True
            self._rows = None
            self._registry.leave(self._token)
            raise
        except BaseException:
            # A generator that raised just ends at its next use, which would look like the end of the rows.
            self.close()
            raise

    def close(self) -> None:
        """Frees what the scan pins; the next use raises `IteratorClosedError`. Safe to call twice, and from any thread.

        While another thread is in `next`, what is pinned is freed when that returns.
        """
        rows, self._rows, self._exhausted = self._rows, None, False
        self._registry.leave(self._token)
        close = getattr(rows, "close", None)
        if close is not None:
            # A generator that runs in another thread refuses, but that thread holds the last reference to it now.
            with contextlib.suppress(ValueError):
                close()

    def __del__(self) -> None:
        registry = getattr(self, "_registry", None)
        if registry is not None:
            registry.leak(self._token)


_EMPTY: Final[Any] = object()


class Closable(Protocol):
    """What an iterator reads from: a scan, or several."""

    @property
    def closed(self) -> bool:
        """True after its own or its store's close."""
        ...

    def close(self) -> None:
        """Frees what it pins. Safe to call twice."""
        ...


class StoreIterator(ClosingIterator[T]):
    """Decoded rows in order. A context manager: leave it, or exhaust it, to free what it pins.

    Raises `IteratorClosedError` when used after its own close or its store's close, also where rows were left: a
    range that silently ends early would be a wrong answer. A row that can't be read closes it. Not thread-safe.
    """

    __slots__ = ("_buffer", "_items", "_rows")

    def __init__(self, items: Iterator[T], rows: Closable) -> None:
        self._items = items
        self._rows = rows
        self._buffer: T = _EMPTY

    @property
    def closed(self) -> bool:
        """True after its own or its store's close; an exhausted iterator is not closed."""
        return self._rows.closed

    def __next__(self) -> T:
        if self._buffer is not _EMPTY:
            self._check_open()
            item, self._buffer = self._buffer, _EMPTY
            return item
        try:
            return next(self._items)
        except StopIteration:
            self._check_open()
            raise
        except BaseException:
            # The error has ended the generator. That must not look like the end of the rows.
            self._rows.close()
            raise

    def peek(self) -> T:
        """The next item, without moving on.

        Raises:
            StopIteration: there is none.
            IteratorClosedError: it or its store was closed.
        """
        if self._buffer is _EMPTY:
            self._buffer = next(self)
        else:
            self._check_open()
        return self._buffer

    def has_next(self) -> bool:
        """Whether there is a next item.

        Raises:
            IteratorClosedError: it or its store was closed.
        """
        try:
            self.peek()
        except StopIteration:
            return False
        return True

    def close(self) -> None:
        """Frees what it pins. Safe to call twice."""
        self._rows.close()

    def _check_open(self) -> None:
        if self._rows.closed:
            raise IteratorClosedError("this iterator was closed, or its store was; open a new one")
