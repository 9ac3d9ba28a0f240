"""Passes errors of tasks to the driver.

Spark reports a task's error to the driver only as text. So the text contains the name and the arguments of a
`StateError` as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import storekeeper.changelog.errors
import storekeeper.errors
import storekeeper.schemas.errors
from storekeeper.apps import errors
from storekeeper.apps.records import PoisonRecordError
from storekeeper.engine.task_input import TruncatedInputError
from storekeeper.errors import StateError

P = ParamSpec("P")
T = TypeVar("T")

_CARRIED = re.compile(r"storekeeper-task-error (\{.*\})")
_KINDS = {
    name: kind
    for module in (storekeeper.errors, storekeeper.changelog.errors, storekeeper.schemas.errors, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, StateError)
} | {kind.__name__: kind for kind in (TruncatedInputError, PoisonRecordError)}


class TaskError(Exception):
    """The error of a task, as text that Spark passes on."""


def task_errors(stage: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Wraps a stage so that its `StateError`s reach the driver."""

    @wraps(stage)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from stage(*args, **kwargs)
        except StateError as error:
            fields = json.dumps({"kind": type(error).__name__, "arguments": error.args}, default=str)
            # Not in the line that raises: tracebacks show it, and the first such text is read.
            message = f"storekeeper-task-error {fields}"
            raise TaskError(message) from error

    return run


@contextmanager
def errors_of_tasks(*kinds: type[StateError]) -> Iterator[None]:
    """In the driver: raises the `StateError` that a task failed with, instead of Spark's exception. `kinds` are those
    beside the library's, the engine's and the apps' own.

    Raises:
        StateError: a task failed with it.
        Exception: Spark's own, as no task failed with a `StateError`.
    """
    try:
        yield
    except Exception as error:  # Spark's own classes, or what py4j makes of a Java exception
        carried = _carried_error(str(error), {kind.__name__: kind for kind in kinds})
        if carried is None:
            raise
        raise carried from error


def _carried_error(text: str, kinds: Mapping[str, type[StateError]]) -> StateError | None:
    """The `StateError` in the text of Spark's exception; None if there is none."""
    match = _CARRIED.search(text)
    if match is None:
        return None
    fields = json.loads(match.group(1))
    kind = kinds.get(fields["kind"]) or _KINDS.get(fields["kind"], StateError)
    return kind(*fields["arguments"])
