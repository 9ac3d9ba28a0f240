"""The functions that operators take, and how a function gets the key as well."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from storekeeper.serdes.serde import Serde

F = TypeVar("F", bound=Callable[..., Any])
F_co = TypeVar("F_co", bound=Callable[..., Any], covariant=True)

Push = Callable[[Any, Any, int], None]
"""Takes one record: key, value, timestamp in epoch ms."""


@dataclass(frozen=True, slots=True)
class WithKey(Generic[F_co]):
    """A function that takes the key before its other arguments."""

    function: F_co


@dataclass(frozen=True, slots=True)
class WithWindow(Generic[F_co]):
    """A function that takes the windowed key before its other arguments."""

    function: F_co


K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")
Type = type[W] | Serde[W] | types.UnionType
"""What keys or values are: a type, a union, or the serde that writes them."""
ValueMapper = Callable[[V], R | None] | WithKey[Callable[[K, V], R | None]]
"""A mapper's None is a tombstone."""
Joiner = Callable[[V, W], R | None] | WithKey[Callable[[K, V, W], R | None]]
"""A joiner's None is a tombstone."""


Check = Callable[[K | None, V | None, int], object]
"""`check(key, value, timestamp_ms)` raises an error for a record that must not be processed."""
TimestampExtractor = Callable[[K, V], int | datetime]
"""`timestamps(key, value)` gives the time of the event: epoch ms, or a datetime with a time zone."""


def with_key(function: F) -> WithKey[F]:
    """Marks a function that takes the key first: `map_values(with_key(lambda key, value: ...))`."""
    return WithKey(function)


def with_window(function: F) -> WithWindow[F]:
    """Marks an adder of windows that takes the windowed key first: `with_window(lambda window, total, value: ...)`.

    `window.key`, `window.start_ms` and `window.end_ms` are those of the row that is written; of sessions, of the merged
    one.
    """
    return WithWindow(function)


def unmarked(function: Any) -> Callable[..., Any]:
    """The function itself, without the mark of what it takes first."""
    plain: Callable[..., Any] = function.function if isinstance(function, WithKey | WithWindow) else function
    return plain


def keyed(function: Callable[..., Any] | WithKey[Any]) -> Callable[..., Any]:
    """The same function, taking the key first."""
    if isinstance(function, WithKey):
        return function.function
    plain = function
    return lambda _key, *values: plain(*values)


def returned_type(function: object) -> Any:
    """The type that a function is annotated to return, a class itself, or None if it has no annotation."""
    if isinstance(function, WithKey):
        return returned_type(function.function)
    if isinstance(function, type):
        return function
    try:
        returned = typing.get_type_hints(inspect.unwrap(function) if callable(function) else function).get("return")
    except (NameError, TypeError, AttributeError):
        return None
    return _known(returned)


def without_none(type_: Any) -> tuple[Any, bool]:
    """A type without None, and whether None was a part of it: `int | None` is int, with None."""
    if not isinstance(type_, types.UnionType) and typing.get_origin(type_) is not typing.Union:
        return type_, type_ is Any or type_ is object
    parts = typing.get_args(type_)
    present = [part for part in parts if part is not type(None)]
    if len(present) == len(parts):
        return type_, False
    return functools.reduce(operator.or_, present), True


def element_type(function: object) -> Any:
    """The type of the elements of the iterable that a function is annotated to return, or None."""
    arguments = typing.get_args(returned_type(function))
    return _known(arguments[0]) if arguments else None


def returned_pair(function: object, *, many: bool = False) -> tuple[Any, Any]:
    """The types of key and value that a function is annotated to return; None for each that is not known. It returns a
    pair, or an iterable of pairs if `many`.
    """
    returned = element_type(function) if many else returned_type(function)
    parts = typing.get_args(returned) if typing.get_origin(returned) is tuple else ()
    return (_known(parts[0]), _known(parts[1])) if len(parts) == 2 else (None, None)


def _known(annotation: Any) -> Any:
    """The type of what serdes see, or None if it says nothing.

    A value that may be None is of the other type: None is a tombstone, which no serde sees.
    """
    annotation, _ = without_none(annotation)
    return None if annotation in (Any, object) or isinstance(annotation, TypeVar | types.EllipsisType) else annotation
