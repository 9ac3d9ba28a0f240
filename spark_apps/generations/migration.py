"""A change of a store's records, as data: from one version of its values and keys to the next.

`convert` and `revert` are functions of one record, named as `module:function` so that a journal and a worker process
can hold them. An app computes values of version 1 for ever; a store at version n holds them converted n - 1 times.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_apps.spec import ValueField
from state.errors import ConfigurationError
from state.names import checked_name

StoreRecord = tuple[bytes, bytes]
"""Key and value of a store's row; never a tombstone."""

Convert = Callable[[bytes, bytes], Sequence[StoreRecord]]
"""From a record to those that take its place: none drops it. It must depend on nothing else, or a replay would differ.

Raises any exception for a record that it can't convert.
"""

Revert = Callable[[bytes, bytes], StoreRecord]
"""From a converted record back to the one that it was made of."""

Route = Callable[[bytes], str]
"""From a key, as it is before the conversion, to the store that its rows are in from then on.

It depends on nothing else, so that a row never moves from one store to another.
"""

PlacedRecord = tuple[str, bytes, bytes]
"""Store, key and value of a row."""


@dataclass(frozen=True, slots=True)
class StoreMigration:
    """One change of one store.

    Attributes:
        name: what the change is called on the command line and in journals.
        store: the store's name.
        summary: one sentence for whoever has to approve it.
        to_version: schema version of what `convert` makes; it takes that of the version before.
        convert: `module:function`, a `Convert`.
        revert: `module:function`, a `Revert`. Without one no later generation can be seeded from such a store.
        value_fields: the fields of the new values, all of them.
        changes_key: whether `convert` makes other keys. They must depend on the old key alone.
        convert_key: `module:function`, from a key to the new ones, for a change of keys in a store whose app deletes
            rows: a deletion has no value that `convert` could take.
        stores: the stores that all rows are in from then on, by name: several for a split, one for a merge. None leaves
            rows in the stores that they are in.
        route: `module:function`, a `Route` to one of `stores`; None if there is only one.
        offered: whether a plan proposes the change by itself; else only somebody who names it gets it.
    """

    name: str
    store: str
    summary: str
    to_version: int
    convert: str
    revert: str | None
    value_fields: tuple[ValueField, ...]
    changes_key: bool = False
    convert_key: str | None = None
    stores: tuple[str, ...] = ()
    route: str | None = None
    offered: bool = True

    def __post_init__(self) -> None:
        for name in (self.name, self.store, *self.stores):
            checked_name(name)
        if len(set(self.stores)) != len(self.stores) or (len(self.stores) > 1) != (self.route is not None):
            msg = f"migration {self.name} names stores twice, or several without a route, or a route without several"
            raise ConfigurationError(msg)

    def store_for(self, key: bytes, before: str) -> str:
        """The store that the rows of a key are in after the change, given the one before it.

        Raises:
            ValueError: the route leads to none of the stores. Or what the route raises.
        """
        if self.route is None:
            return self.stores[0] if self.stores else before
        found: str = function_named(self.route)(key)
        if found not in self.stores:
            msg = f"the route of migration {self.name} leads to none of its stores"
            raise ValueError(msg)
        return found

    def keys_for(self, key: bytes) -> Sequence[bytes]:
        """The keys of the rows that are made of the row at `key`.

        Raises:
            ConfigurationError: the step changes keys and doesn't say which becomes which. Or what the function raises.
        """
        if not self.changes_key:
            return (key,)
        if self.convert_key is None:
            msg = f"a row was deleted, and migration {self.name} doesn't say by `convert_key` which one that is now"
            raise ConfigurationError(msg)
        keys: Sequence[bytes] = function_named(self.convert_key)(key)
        return keys


@dataclass(frozen=True, slots=True)
class Chain:
    """Migrations one after the other; of none, records stay as they are. Can be sent to other processes.

    Those of an app may be of several of its stores: what becomes of a record is asked of the chain `of` its store.
    """

    steps: tuple[StoreMigration, ...] = ()

    def of(self, store: str) -> Chain:
        """Those of one of the app's own stores."""
        return Chain(tuple(step for step in self.steps if step.store == store))

    def convert(self, key: bytes, value: bytes) -> list[StoreRecord]:
        """The records that take the place of one, whichever stores they are in. Raises what the functions raise."""
        return [(new_key, new_value) for _, new_key, new_value in self.placed("", key, value)]

    def placed(self, store: str, key: bytes, value: bytes) -> list[PlacedRecord]:
        """The records that take the place of one of `store`, with their stores. Raises what the functions raise."""
        records = [(store, key, value)]
        for step in self.steps:
            function = function_named(step.convert)
            records = [
                (step.store_for(old_key, old_store), *converted)
                for old_store, old_key, old_value in records
                for converted in function(old_key, old_value)
            ]
        return records

    def placed_keys(self, store: str, key: bytes) -> list[tuple[str, bytes]]:
        """Where the rows are, by store and key, that are made of the row at `key` of `store`: what goes if it goes.

        Raises:
            ConfigurationError: a step changes keys and doesn't say which becomes which. Or what the functions raise.
        """
        places = [(store, key)]
        for step in self.steps:
            places = [(step.store_for(old, before), new) for before, old in places for new in step.keys_for(old)]
        return places

    def stores(self, first: str) -> tuple[str, ...]:
        """The stores that the rows of the store `first` are in after all steps."""
        return next((step.stores for step in reversed(self.steps) if step.stores), (first,))

    def revert(self, key: bytes, value: bytes) -> StoreRecord:
        """The record that one was made of.

        Raises:
            ConfigurationError: a step has no way back.
        """
        for step in reversed(self.steps):
            if step.revert is None:
                msg = f"migration {step.name} has no way back: seed from a generation before it"
                raise ConfigurationError(msg)
            key, value = function_named(step.revert)(key, value)
        return key, value


def function_named(path: str) -> Callable[..., Any]:
    """The function at `module:function`.

    Raises:
        ConfigurationError: there is none.
    """
    module, _, name = path.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever somebody's module raises
        msg = f"there is no function {path[:200]!r}: name it as module:function"
        raise ConfigurationError(msg) from error
    return function
