"""Finds functions that change their arguments. For the test driver: looking costs time.

Rows and records are shared: by other branches of a topology, by the rows of a store, and by the old and the new value
of a change. A function that changes its argument changes all of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from state.errors import ConfigurationError
from state.topology.failures import OnError
from state.topology.guards import Guards, Shape

F = TypeVar("F", bound=Callable[..., Any])
_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode


class UnchangedArguments(Guards):
    """Compares the arguments of the user's functions before and after each call."""

    def function(self, operator: str, function: F, shape: Shape | None = None, on_error: OnError | None = None) -> F:
        """The function; it fails if it changes an argument.

        Raises:
            ConfigurationError: when it is called, and changes an argument.
        """

        def call(*arguments: Any) -> Any:
            before = [_content(argument) for argument in arguments]
            result = function(*arguments)
            for argument, content in zip(arguments, before, strict=True):
                if _content(argument) != content:
                    msg = (
                        f"a function of operator {operator} changed its argument, a {type(argument).__name__}: return "
                        "a new value, as other operators and the store have the same one"
                    )
                    raise ConfigurationError(msg)
            return result

        return call  # type: ignore[return-value]


def _content(value: Any) -> Any:
    try:
        return _encode(value)
    except Exception:
        return repr(value)
