"""The operators of a topology as a graph, and their names.

A node's name follows from its place: the name of its first parent, its kind, and a number only where the parent has
several children of that kind. So an operator that is added elsewhere changes no store's and no topic's name.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.schemas.bound import BoundSerde, SchemaSerde
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import encoded_names, key_serde
from storekeeper.topology.failures import OnError
from storekeeper.topology.serde_checks import check_keys, check_type
from storekeeper.topology.store import Store, StoreKind

if TYPE_CHECKING:
    from storekeeper.topology.functions import Push
    from storekeeper.topology.table import Table
    from storekeeper.topology.wiring import Wiring

LONGEST_NAME = 80
_KINDS = {
    "retention": (StoreKind.WINDOW, StoreKind.SESSION),
    "history": (StoreKind.VERSIONED,),
    "ttl": (StoreKind.TTL,),
}


@dataclass(frozen=True, slots=True)
class TopologyStore:
    """A store of a topology with everything that is needed to open it.

    Attributes:
        name: of the store.
        kind: how rows are arranged.
        key_serde: of its keys.
        value_serde: of its values, without the timestamp.
        options: its options in the topology.
        retention_ms: of windows, sessions and versions; the TTL of a store of kind TTL.
        window_size_ms: of a window store.
        retain_duplicates: whether a window store keeps several values of one key and time.
        timestamped: whether values carry the timestamp of their record.
        internal: whether its rows mean something to its operator only.

    Raises:
        ConfigurationError: it is to be ranked, and its rows are not by key, or have no such field; or it is to be
            everywhere, and its rows are not by key.
    """

    name: str
    kind: StoreKind
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    options: Store[Any] = field(default_factory=Store)
    retention_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False
    timestamped: bool = False
    internal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_serde", key_serde(self.key_serde))
        if self.options.everywhere and self.kind not in {StoreKind.KEY_VALUE, StoreKind.TTL}:
            msg = f"store {self.name}: rows of kind {self.kind} can't be everywhere; leave `everywhere` out"
            raise ConfigurationError(msg)
        field_name = self.options.ranked_by
        if field_name is None:
            return
        if self.kind is not StoreKind.KEY_VALUE:
            msg = f"store {self.name}: rows of kind {self.kind} can't be ranked; rank a table that is not windowed"
            raise ConfigurationError(msg)
        serde = self.value_serde.inner if isinstance(self.value_serde, BoundSerde) else self.value_serde
        if isinstance(serde, SchemaSerde):
            _check_number(self.name, field_name, serde)
        elif field_name not in encoded_names(serde):
            msg = f"store {self.name}: ranked_by={field_name!r} is not a field of its values as they are encoded"
            raise ConfigurationError(msg)


def check_options(spec: TopologyStore) -> None:
    """Refuses options that would be ignored in silence.

    Raises:
        ConfigurationError: they are those of another kind of store.
    """
    kind, options = spec.kind, spec.options
    if options.kind not in {StoreKind.KEY_VALUE, kind}:
        msg = f"store {spec.name}: this operator keeps rows of kind {kind.value}, not {options.kind.value}"
        raise ConfigurationError(msg)
    for option, kinds in _KINDS.items():
        if getattr(options, option) is not None and kind not in kinds:
            msg = f"store {spec.name}: {option}= has no meaning for rows of kind {kind.value}: leave it out"
            raise ConfigurationError(msg)


def _check_number(store: str, field_name: str, serde: SchemaSerde[Any]) -> None:
    """Refuses a ranking in which no row would have a score."""
    if field_name not in serde.numbers():
        msg = (
            f"store {store}: ranked_by={field_name!r} is not a field that is a number in JSON by its schema: choose "
            f"{' or '.join(sorted(serde.numbers())) or 'another schema'}. Times, and 64-bit integers of Protobuf, are "
            "text there"
        )
        raise ConfigurationError(msg)


def check_store(name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]]) -> None:
    """Refuses a store whose keys or values are not those of its operator.

    Keys that are written otherwise would be in partitions where no node looks for them.

    Raises:
        ConfigurationError: they are of other types.
    """
    check_keys(f"store {name}", serdes[0], options.key_serde)
    check_type(f"store {name}: the values are", serdes[1], options.value_serde)


def rows_spec(name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]]) -> TopologyStore:
    """The store of a table's rows, with the serdes of its options or else `serdes`.

    Raises:
        ConfigurationError: those of its options are of other types.
    """
    check_store(name, options, serdes)
    keys, values = options.key_serde or serdes[0], options.value_serde or serdes[1]
    return TopologyStore(name, StoreKind.KEY_VALUE, keys, values, options, timestamped=True)


class Graph:
    """The nodes of one topology, in the order of their declaration.

    Attributes:
        on_error: the policy of operators that are added; None for the app's.
    """

    def __init__(self, app: str) -> None:
        self.app = checked_name(app)
        self.nodes: list[GraphNode] = []
        self.on_error: OnError | None = None
        self._names: set[str] = set()

    def add(self, node: GraphNode) -> None:
        """Adds a node.

        Raises:
            ConfigurationError: another node has this name.
        """
        if node.name in self._names:
            msg = f"two operators are called {node.name!r}: give one of them another name with named="
            raise ConfigurationError(msg)
        self._names.add(node.name)
        self.nodes.append(node)


class GraphNode:
    """One operator.

    Attributes:
        name: unique in its topology.
        kind: what it does, for names and descriptions.
        parents: the nodes that it takes records from, in the order of its inputs.
        children: the nodes that take its records, each with the number of that input.
        stores: what it keeps.
        store_names: stores of `add_store` that it uses.
        replayable: whether it gives the same records again if it is run again: no state, no look-up, no side effect.
        copartitioned: whether the topics that reach it must have the same number of partitions.
        meets: whether it joins its two inputs by what they are at the moment.
        on_error: what becomes of a record that it can't process; None for the app's policy.
    """

    meets = False

    def __init__(
        self,
        graph: Graph,
        kind: str,
        parents: Sequence[GraphNode] = (),
        *,
        named: str | None = None,
        replayable: bool = False,
        copartitioned: bool = False,
    ) -> None:
        self.graph = graph
        self.kind = kind
        check_one_builder(graph, parents)
        self.parents = list(parents)
        self.children: list[tuple[GraphNode, int]] = []
        self.stores: list[TopologyStore] = []
        self.store_names: list[str] = []
        self.replayable = replayable
        self.copartitioned = copartitioned
        self.on_error = graph.on_error
        self.name = checked_name(named) if named is not None else derived_name(kind, parents)
        graph.add(self)
        for number, parent in enumerate(self.parents):
            parent.children.append((self, number))

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """The functions that take the records of its inputs, one each; none if it hangs below a table."""
        return ()

    def realise(self, wiring: Wiring) -> None:
        """Does what must happen once for each task, in the order of declaration."""

    def add_rows(self, store: Store[Any] | None, serdes: tuple[Serde[Any], Serde[Any]]) -> TopologyStore:
        """Declares the store of a table's rows; see `rows_spec`."""
        return self.add_store(store, "store", lambda name, options: rows_spec(name, options, serdes))

    def add_store(
        self, store: Store[Any] | None, suffix: str, build: Callable[[str, Store[Any]], TopologyStore]
    ) -> TopologyStore:
        """Declares a store, named after this node unless it has a name of its own."""
        options: Store[Any] = store if store is not None else Store()
        spec = build(options.name or f"{self.name}-{suffix}", options)
        check_options(spec)
        self.stores.append(spec)
        return spec


class TableNode(GraphNode, ABC):
    """An operator whose result is a table."""

    @abstractmethod
    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """Builds the table of one task."""

    def realise(self, wiring: Wiring) -> None:
        """Builds the table in its turn, so that tables get changes in the order of declaration."""
        wiring.table(self)

    @property
    def versioned(self) -> TopologyStore | None:
        """The versioned store that it can be read from as of a time, or None."""
        return None

    def require_rows(self) -> None:
        """Declares that rows are looked up: a source table without a store gets one."""
        for parent in self.parents:
            if isinstance(parent, TableNode):
                parent.require_rows()


def derived_name(kind: str, parents: Sequence[GraphNode]) -> str:
    """The name of an operator from its place."""
    if not parents:
        return checked_name(kind)
    parent = parents[0]
    equal = sum(child.kind == kind and child.parents[0] is parent for child, _ in parent.children)
    return joined_name(parent.name, f".{kind}" if equal == 0 else f".{kind}-{equal + 1}")


def operator_name(kind: str, parents: Sequence[GraphNode], named: str | None) -> str:
    """What messages call an operator that is to be added."""
    return derived_name(kind, parents) if named is None else f"{kind} {named}"


def check_one_builder(graph: Graph, parents: Sequence[GraphNode]) -> None:
    """Refuses inputs of two topologies.

    Raises:
        ConfigurationError: records of the two could never meet.
    """
    others = [parent.name for parent in parents if parent.graph is not graph]
    if others:
        msg = f"{others[0]} is of another StreamsBuilder: describe all that meets with one"
        raise ConfigurationError(msg)


def joined_name(parent: str, tail: str) -> str:
    """The two put together. A digest takes the parent's place where the name would be too long for a topic."""
    if len(parent) + len(tail) <= LONGEST_NAME:
        return parent + tail
    return hashlib.sha256(parent.encode()).hexdigest()[:16] + tail[-LONGEST_NAME // 2 :]


def ancestors(node: GraphNode) -> Iterable[GraphNode]:
    """The node and all above it in its sub-topology."""
    seen, waiting = {node}, [node]
    while waiting:
        current = waiting.pop()
        yield current
        for parent in current.parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)


def descendants(node: GraphNode) -> Iterable[GraphNode]:
    """All below the node in its sub-topology."""
    seen, waiting = {node}, [node]
    while waiting:
        for child, _ in waiting.pop().children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child
