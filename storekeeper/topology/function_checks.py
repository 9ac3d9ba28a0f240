"""Functions are checked where a topology is described: whether they can be called as the operator calls them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from storekeeper.errors import ConfigurationError
from storekeeper.topology.functions import WithKey, WithWindow

_CACHED = type(functools.lru_cache(len))


def check_function(
    operator: str, takes: str, function: object, *, key: bool = False, window: bool = False, many: bool = False
) -> None:
    """Refuses a function that the operator can't use.

    A builtin that doesn't tell its arguments is let through.

    Args:
        operator: names the operator.
        takes: what it is and takes, such as `predicate(key, value)`.
        function: what the user gave.
        key: whether `with_key(...)` may stand here.
        window: whether `with_window(...)` may stand here.
        many: whether it returns many values, so that it may be a generator.

    Raises:
        ConfigurationError: it is no function, takes other arguments, or returns a coroutine or a generator.
    """
    name, _, arguments = takes.removesuffix(")").partition("(")
    names = [argument for argument in arguments.split(", ") if argument]
    if isinstance(function, WithKey | WithWindow):
        marker, first, allowed = ("with_key", "key", key) if isinstance(function, WithKey) else (
            "with_window", "window", window)  # fmt: skip
        if not allowed:
            msg = f"{operator} takes {takes}, which {marker}(...) can't change here: pass the function itself"
            raise ConfigurationError(msg)
        function, names = function.function, [first, *names]
        takes = f"{marker}({name}({', '.join(names)}))"
    if not callable(function):
        raise ConfigurationError(f"{operator} takes {takes}, a function, and got {_shown_value(function)}")
    _check_kind(operator, takes, function, many=many)
    signature = _signature(function)
    if signature is not None and not _binds(signature, len(names)):
        raise ConfigurationError(f"{operator} takes {takes}, and {shown(function)} takes {_without_types(signature)}")


def check_kind(operator: str, value: object, allowed: Any, words: str) -> None:
    """Refuses an argument of another kind.

    Args:
        operator: names the operator.
        value: what the user gave.
        allowed: the type that it must have.
        words: what the operator takes.

    Raises:
        ConfigurationError: it is of another type.
    """
    if not isinstance(value, allowed):
        raise ConfigurationError(f"{operator} takes {words}, not {value!r:.60}")


def check_processor(operator: str, factory: object) -> None:
    """Refuses what makes no processor. What a function makes is known only when it is called, in the task.

    Raises:
        ConfigurationError: it is no class and no function, or the class lacks a method, or one takes other arguments.
    """
    if not callable(factory):
        why = "an object" if hasattr(factory, "process") else _shown_value(factory)
        msg = f"{operator} takes a class or function that makes a processor, one for each task, and got {why}"
        raise ConfigurationError(msg)
    check_function(operator, "factory()", factory)
    if isinstance(factory, type):
        check_methods(operator, factory, bound=False)


def check_methods(operator: str, processor: object, *, bound: bool = True) -> None:
    """Refuses a processor that can't be called as one.

    Args:
        operator: names the operator.
        processor: the processor, or its class.
        bound: whether it is the processor itself.

    Raises:
        ConfigurationError: it lacks a method, or one takes other arguments or is asynchronous.
    """
    kind = processor if isinstance(processor, type) else type(processor)
    for takes in ("init(context)", "process(key, value, timestamp_ms)"):
        name, _, arguments = takes.partition("(")
        method = getattr(processor, name, None)
        if not callable(method):
            raise ConfigurationError(f"{operator}: {kind.__name__} is no processor: it has no method {takes}")
        is_bound = bound or not inspect.isfunction(inspect.getattr_static(kind, name, None))
        check_function(f"{operator}: {kind.__name__}", takes if is_bound else f"{name}(self, {arguments}", method)


def shown(function: object) -> str:
    """A function's name and place, for messages."""
    plain = _plain(function)
    code = getattr(plain, "__code__", None)
    name = getattr(plain, "__qualname__", None) or type(plain).__name__
    name = name.rpartition("<locals>.")[2]
    return name if code is None else f"{name} (line {code.co_firstlineno} of {code.co_filename.rpartition('/')[2]})"


def _plain(function: object) -> object:
    """The function inside a partial or a cache, which call it as it is."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, _CACHED):
            function = function.__wrapped__
        else:
            return function


def _shown_value(value: object) -> str:
    return "None" if value is None else f"{value!r:.60}, a {type(value).__name__}"


def _check_kind(operator: str, takes: str, function: Callable[..., Any], *, many: bool) -> None:
    plain = _plain(function)
    called = plain if inspect.isroutine(plain) or isinstance(plain, type) else type(plain).__call__
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(
            f"{operator} takes {takes}, and {shown(function)} is asynchronous: nobody awaits what it returns. "
            "Use def instead of async def"
        )
    if inspect.isgeneratorfunction(called) and not many:
        raise ConfigurationError(
            f"{operator} takes {takes}, and {shown(function)} is a generator: return the result instead of yielding it"
        )


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """What it takes, or None where it doesn't tell.

    A wrapper's own arguments count, not those of the function that it wraps, which it may call otherwise.
    """
    follows = not inspect.isfunction(_plain(function))
    try:
        return inspect.signature(function, follow_wrapped=follows)
    except (ValueError, TypeError):
        return None


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _without_types(signature: inspect.Signature) -> str:
    empty = inspect.Parameter.empty
    plain = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(plain))
