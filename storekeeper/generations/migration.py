"""A change of a store's rows, as data: from one version of its keys and values to the next.

A generation of an app runs a topology of its own, which reads and writes rows of its version. So a row is converted
once, when a generation is seeded from another. Functions are named as `module:function`, so that a journal can hold
them and worker processes find them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name

StoreRecord = tuple[bytes, bytes]
"""Key and value of a store's row; never a tombstone."""

Convert = Callable[[bytes, bytes], Sequence[StoreRecord]]
"""From a row to the rows that replace it; an empty sequence drops it. The result must depend on the row alone.

Raises any exception for a row that it can't convert.
"""


@dataclass(frozen=True, slots=True)
class StoreMigration:
    """One change of one store.

    Attributes:
        name: what the change is called on the command line and in journals.
        store: the store's name.
        summary: one sentence for the person who approves it.
        to_version: schema version of the rows that `convert` makes; its input has the version before.
        convert: `module:function`, a `Convert`.
        describe: `module:function`, which describes the topology after the change. None: the topology stays.
        changes_key: whether `convert` makes other keys.
    """

    name: str
    store: str
    summary: str
    to_version: int
    convert: str
    describe: str | None = None
    changes_key: bool = False

    def __post_init__(self) -> None:
        for name in (self.name, self.store):
            checked_name(name)


@dataclass(frozen=True, slots=True)
class Chain:
    """Migrations one after the other; with none, rows stay as they are. Can be sent to other processes."""

    steps: tuple[StoreMigration, ...] = ()

    def of(self, store: str) -> Chain:
        """The migrations of one store."""
        return Chain(tuple(step for step in self.steps if step.store == store))

    @property
    def changes_key(self) -> bool:
        """Whether one of them makes other keys."""
        return any(step.changes_key for step in self.steps)

    @property
    def describe(self) -> str | None:
        """The `module:function` that describes the topology after all of them; None: the app's own stays."""
        named = [step.describe for step in self.steps if step.describe is not None]
        return named[-1] if named else None

    def convert(self, key: bytes, value: bytes) -> list[StoreRecord]:
        """The rows that replace one row. Raises what the functions raise."""
        records: list[StoreRecord] = [(key, value)]
        for step in self.steps:
            function = function_named(step.convert)
            records = [record for old_key, old_value in records for record in function(old_key, old_value)]
        return records


def function_named(path: str) -> Callable[..., Any]:
    """The function at `module:function`.

    Raises:
        ConfigurationError: there is none.
    """
    module, _, name = path.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever somebody's module raises
        raise ConfigurationError(f"there is no function {path[:200]!r}: name it as module:function") from error
    return function
