"""Finds functions that change their arguments, or what they have passed on. For the test driver: looking costs time.

A lambda may also return a coroutine, which is neither seen when an app is described nor false.

Rows and records are shared: by other branches of a topology, by the rows of a store, and by the old and the new value
of a change. A function that changes its argument changes all of these, and so does one that goes on changing a value
which it has returned, yielded or forwarded: a table writes its rows when the batch ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import msgspec

from storekeeper.errors import ConfigurationError
from storekeeper.topology.failures import OnError
from storekeeper.topology.guards import Encode, Guards, Shape

F = TypeVar("F", bound=Callable[..., Any])
_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode
_UNCHANGING = (str, bytes, int, float, type(None))
_KEPT = 20
"""How many values of earlier batches are compared once more, as tests run a batch for each record."""


class UnchangedArguments(Guards):
    """Compares the arguments of the user's functions before and after each call, and their results later."""

    def __init__(self) -> None:
        self._passed_on: list[tuple[str, Any, Any]] = []

    def function(self, operator: str, function: F, shape: Shape | None = None, on_error: OnError | None = None) -> F:
        """The function; it fails if it changes an argument.

        Raises:
            ConfigurationError: when it is called, and changes an argument, or returns what somebody has to await.
        """

        def call(*arguments: Any) -> Any:
            before = [_content(argument) for argument in arguments]
            result = function(*arguments)
            for argument, content in zip(arguments, before, strict=True):
                if _content(argument) != content:
                    raise _changed(operator, "its argument", argument)
            if isinstance(result, Awaitable):
                raise _not_awaited(operator, result)
            if isinstance(result, Iterator):
                return self._each(operator, result)
            self._pass_on(operator, result)
            return result

        return call  # type: ignore[return-value]

    def passing(self, operator: str, forward: F, encode: Encode) -> F:
        """What passes records on; their values must stay as they are."""

        def call(key: Any, value: Any, timestamp_ms: int) -> None:
            self._pass_on(operator, value)
            forward(key, value, timestamp_ms)

        return call  # type: ignore[return-value]

    def check(self) -> None:
        """Compares what was passed on with what it is now, when a batch ends.

        Raises:
            ConfigurationError: a value has changed since.
        """
        passed_on, self._passed_on = self._passed_on, []
        for operator, value, content in passed_on:
            if _content(value) != content:
                raise _changed(operator, "what it had passed on", value)
        self._passed_on = passed_on[-_KEPT:]

    def _each(self, operator: str, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            self._pass_on(operator, value)
            yield value

    def _pass_on(self, operator: str, value: Any) -> None:
        if not isinstance(value, _UNCHANGING):
            self._passed_on.append((operator, value, _content(value)))


def _not_awaited(operator: str, result: Awaitable[Any]) -> ConfigurationError:
    if isinstance(result, Coroutine):
        result.close()
    return ConfigurationError(
        f"a function of operator {operator} returned a {type(result).__name__}, and nobody awaits it, so a predicate "
        "would let all pass: return the result itself"
    )


def _changed(operator: str, what: str, value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"a function of operator {operator} changed {what}, a {type(value).__name__}: return "
        "a new value, as other operators and the store have the same one"
    )


def _content(value: Any) -> Any:
    try:
        return _encode(value)
    except Exception:
        return repr(value)
