"""Operators that keep nothing: each record in gives records out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.topology.functions import Push, WithKey, unmarked
from storekeeper.topology.guards import UNGUARDED, Shape
from storekeeper.topology.node import GraphNode
from storekeeper.topology.wiring import Wiring

Compile = Callable[[Callable[..., Any], Push], Push]
"""Makes the function that takes the records, of the user's function and the one that takes the results."""


class Kind(NamedTuple):
    """A kind of operator that keeps nothing.

    Attributes:
        name: what it is called.
        compile: makes its closure.
        shape: what the user's function must return.
        of_values: makes the closure of a function that doesn't take the key; None if all take it.
    """

    name: str
    compile: Compile
    shape: Shape | None = None
    of_values: Compile | None = None


class Stateless(GraphNode):
    """An operator that is one closure."""

    def __init__(self, parent: GraphNode, kind: Kind, function: Any, *, named: str | None) -> None:
        super().__init__(parent.graph, kind.name, (parent,), named=named, replayable=True)
        self._kind = kind
        self._function = function

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """The closure over what hangs below."""
        function = wiring.guarded(self, unmarked(self._function), self._kind.shape)
        kind, takes_key = self._kind, isinstance(self._function, WithKey)
        make = kind.compile if kind.of_values is None or takes_key else kind.of_values
        return (make(function, wiring.forward(self)),)


def _filtering(predicate: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        if predicate(key, value):
            forward(key, value, timestamp_ms)

    return push


def _filtering_not(predicate: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        if not predicate(key, value):
            forward(key, value, timestamp_ms)

    return push


def _mapping(mapper: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        new_key, new_value = mapper(key, value)
        forward(new_key, new_value, timestamp_ms)

    return push


def _selecting_key(selector: Callable[..., Any], forward: Push) -> Push:
    return lambda key, value, timestamp_ms: forward(selector(key, value), value, timestamp_ms)


def _mapping_values(mapper: Callable[..., Any], forward: Push) -> Push:
    return lambda key, value, timestamp_ms: forward(key, mapper(key, value), timestamp_ms)


def _mapping_values_alone(mapper: Callable[..., Any], forward: Push) -> Push:
    return lambda key, value, timestamp_ms: forward(key, mapper(value), timestamp_ms)


def _flat_mapping(mapper: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        for new_key, new_value in mapper(key, value):
            forward(new_key, new_value, timestamp_ms)

    return push


def _flat_mapping_values(mapper: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        for new_value in mapper(key, value):
            forward(key, new_value, timestamp_ms)

    return push


def _flat_mapping_values_alone(mapper: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        for new_value in mapper(value):
            forward(key, new_value, timestamp_ms)

    return push


def _peeking(action: Callable[..., Any], forward: Push) -> Push:
    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        action(key, value)
        forward(key, value, timestamp_ms)

    return push


def _pair(pair: Any) -> tuple[Any, Any]:
    key, value = pair
    return key, value


FILTER = Kind("filter", _filtering, bool)
FILTER_NOT = Kind("filter-not", _filtering_not, bool)
MAP = Kind("map", _mapping, _pair)
SELECT_KEY = Kind("select-key", _selecting_key)
MAP_VALUES = Kind("map-values", _mapping_values, of_values=_mapping_values_alone)
FLAT_MAP = Kind("flat-map", _flat_mapping, lambda pairs: [_pair(each) for each in pairs])
FLAT_MAP_VALUES = Kind("flat-map-values", _flat_mapping_values, list, _flat_mapping_values_alone)
PEEK = Kind("peek", _peeking)


class Merge(GraphNode):
    """The records of several streams, as they come."""

    def __init__(self, parents: Sequence[GraphNode], *, named: str | None) -> None:
        super().__init__(parents[0].graph, "merge", parents, named=named, replayable=True)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """All inputs go to the same place."""
        return (wiring.forward(self),) * len(self.parents)


class Split(GraphNode):
    """Each record goes to the first branch whose predicate holds, or to the default branch, or nowhere."""

    def __init__(self, parent: GraphNode, *, named: str | None) -> None:
        super().__init__(parent.graph, "split", (parent,), named=named, replayable=True)
        self.predicates: list[Callable[[Any, Any], bool]] = []

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Asks the predicates in order; branches are the children, the default is the last."""
        branches = [wiring.entry(child, number) for child, number in self.children]
        default = branches[-1] if len(branches) > len(self.predicates) else None
        predicates = [wiring.guarded(self, predicate, bool) for predicate in self.predicates]
        pairs = list(zip(predicates, branches, strict=False))

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            for predicate, branch in pairs:
                if predicate(key, value):
                    branch(key, value, timestamp_ms)
                    return
            if default is not None:
                default(key, value, timestamp_ms)

        return (push,)


class Branch(GraphNode):
    """One way out of a split."""

    def __init__(self, split: Split, name: str | None) -> None:
        super().__init__(split.graph, "branch", (split,), named=name, replayable=True)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Records go on as they are."""
        return (wiring.forward(self),)


class Sink(GraphNode):
    """Writes records to a topic."""

    def __init__(
        self, parent: GraphNode, topic: str, keys: Serde[Any], values: Serde[Any], *, named: str | None = None
    ) -> None:
        super().__init__(parent.graph, "to", (parent,), named=named, replayable=True)
        self.topic = topic
        self.key_serde = key_serde(keys)
        self.value_serde = values

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Encodes each record and adds it to the outputs."""
        encode_key = wiring.guarded(self, wiring.guards.serialize(self.key_serde))
        encode = wiring.guarded(self, self.value_serde.serialize)
        append, context = wiring.outputs_to(self.topic).append, wiring.context
        are_bytes = isinstance(self.key_serde, BytesSerde) and isinstance(self.value_serde, BytesSerde)
        if are_bytes and wiring.guards is UNGUARDED:
            # Many records come as bytes: the two calls that change nothing would take as long as all the rest.
            return (lambda key, value, timestamp_ms: append((key, value, timestamp_ms, context.headers)),)

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            key_bytes = None if key is None else encode_key(key)
            append((key_bytes, None if value is None else encode(value), timestamp_ms, context.headers))

        return (push,)


class ToStream(GraphNode):
    """A table's changes as a stream: the new value, or None for a row that is gone."""

    def __init__(self, parent: GraphNode, *, named: str | None) -> None:
        super().__init__(parent.graph, "to-stream", (parent,), named=named, replayable=True)

    def realise(self, wiring: Wiring) -> None:
        """Subscribes to the table."""
        forward = wiring.forward(self)
        wiring.table(self.parents[0]).subscribe(
            lambda key, change, timestamp_ms: forward(key, change.new, timestamp_ms)
        )
