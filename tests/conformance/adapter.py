"""What an adapter is: the operations of case files, in terms of one store kind.

A subclass names in `kinds` the store kinds that it runs and has a method for each operation:

    do_<operation>(*arguments)    returns the result; where a case gives one argument more, that is the expected one
    scan_<operation>(*arguments)  returns an iterator; the same, and `iter_open` works on it
    item(row)                     what a case file shows of a row of such an iterator
    key_of(row)                   what `iter_peek` shows of it

Every module in `adapters/` is found by itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from storekeeper.errors import (
    BufferFullError,
    ConfigurationError,
    InvalidArgumentError,
    InvalidStateStoreError,
    InvalidTimestampError,
    InvalidWindowError,
    IteratorClosedError,
    NullKeyError,
    SerializationError,
    StateError,
    StoreClosedError,
    StoreCorruptedError,
    StoreUnavailableError,
)
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import BytesSerde, Int64Serde, Serde, Utf8Serde
from tests.conformance.backend import Backend
from tests.conformance.case import decoded, matches, plain

ERRORS: dict[str, tuple[type[Exception], ...]] = {
    "null_key": (NullKeyError,),
    "invalid_store": (StoreClosedError,),
    "store_unavailable": (StoreUnavailableError,),
    "iterator_closed": (IteratorClosedError,),
    "dirty_overwrite": (InvalidArgumentError,),
    "buffer_full": (BufferFullError,),
    "bad_timestamp": (InvalidTimestampError,),
    "invalid_offset": (InvalidArgumentError,),
    "corrupt_value": (SerializationError, StoreCorruptedError),
    "bad_window": (InvalidWindowError, ConfigurationError),
}


class _UnsignedSerde:
    def serialize(self, value: int) -> bytes:
        return value.to_bytes(4, "big")

    def deserialize(self, data: bytes) -> int:
        return int.from_bytes(data, "big")


SERDES: dict[str, Serde[Any]] = {
    "utf8": Utf8Serde(),
    "bytes": BytesSerde(),
    "u32be": _UnsignedSerde(),
    "i64": Int64Serde(),
    "json": JsonSerde(),
}


class UnsupportedCaseError(Exception):
    """A case asks for what no adapter knows; it is skipped with this reason."""


class MismatchError(AssertionError):
    """An operation gave another result than the case says."""


class Adapter:
    """One store kind under test."""

    kinds: ClassVar[tuple[str, ...]] = ()
    backends: ClassVar[tuple[str, ...]] = ("memory", "rocksdb", "redis")
    errors: ClassVar[dict[str, tuple[type[Exception], ...]]] = ERRORS

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        self.config = config
        self.backend = backend
        self.iterators: dict[str, Any] = {}

    def close(self) -> None:
        """Lets go of everything."""

    def item(self, row: Any) -> Any:
        """What a case file shows of a row."""
        return row

    def key_of(self, row: Any) -> Any:
        """What `iter_peek` shows of a row."""
        return self.item(row)[0]

    def run(self, op: list[Any]) -> Any:
        """Runs one operation and checks its result.

        Raises:
            MismatchError: the result is another one than expected.
            UnsupportedCaseError: there is no such operation.
        """
        name, *arguments = op
        method: Callable[..., Any] | None = getattr(self, f"do_{name}", None) or self._scanned(name)
        if method is None:
            msg = f"unknown operation {name}"
            raise UnsupportedCaseError(msg)
        values = [decoded(argument) for argument in arguments]
        parameters = inspect.signature(method).parameters.values()
        takes = len(values) if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)
        result = method(*values[:takes])
        if len(values) > takes and not matches(plain(result), values[takes]):
            msg = f"{op[: takes + 1]}: expected {values[takes]!r}, got {plain(result)!r}"
            raise MismatchError(msg[:600])
        return result

    def _scanned(self, name: str) -> Callable[..., Any] | None:
        scan: Callable[..., Any] | None = getattr(self, f"scan_{name}", None)
        if scan is None:
            return None

        @functools.wraps(scan)
        def read(*values: Any) -> list[Any]:
            with scan(*values) as rows:
                return [self.item(row) for row in rows]

        return read

    def do_expect_error(self, code: str, op: list[Any]) -> None:
        """The operation must raise the error that `code` stands for."""
        try:
            self.run(op)
        except self.errors[code]:
            return
        msg = f"{op} should have raised {code}"
        raise MismatchError(msg)

    def do_try(self, op: list[Any]) -> None:
        """The operation may fail."""
        with contextlib.suppress(StateError):
            self.run(op)

    def do_iter_open(self, name: str, operation: str, *arguments: Any) -> None:
        """Opens an iterator under a name."""
        self.iterators[name] = getattr(self, f"scan_{operation}")(*arguments)

    def do_iter_has_next(self, name: str) -> bool:
        """Whether there is a next row."""
        return bool(self.iterators[name].has_next())

    def do_iter_next(self, name: str) -> Any:
        """The next row."""
        return self.item(next(self.iterators[name]))

    def do_iter_peek(self, name: str) -> Any:
        """The next row's key, without moving on."""
        return self.key_of(self.iterators[name].peek())

    def do_iter_close(self, name: str) -> None:
        """Closes it."""
        self.iterators[name].close()

    def do_iter_next_error(self, name: str) -> None:
        """`next` must raise."""
        self._must_raise(lambda: next(self.iterators[name]))

    def do_iter_peek_error(self, name: str) -> None:
        """`peek` must raise."""
        self._must_raise(self.iterators[name].peek)

    def do_iter_drain_no_error(self, name: str) -> None:
        """Reading to the end must not raise."""
        for _ in self.iterators[name]:
            pass

    def _must_raise(self, call: Any) -> None:
        try:
            call()
        except (StopIteration, IteratorClosedError, InvalidStateStoreError):
            return
        raise MismatchError("an exhausted or closed iterator gave a row")
