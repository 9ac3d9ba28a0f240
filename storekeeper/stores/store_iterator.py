"""The iterator that store kinds hand out: decoded rows, with Kafka Streams' `peek` and `has_next`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

from storekeeper.errors import IteratorClosedError
from storekeeper.stores.iterators import ClosingIterator

T = TypeVar("T")
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
