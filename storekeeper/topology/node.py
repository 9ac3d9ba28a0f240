"""The operators of a topology as a graph, and their names.

A node's name follows from its place: the name of its first parent, its kind, and a number only where the parent has
several children of that kind. So an operator that is added elsewhere changes no store's and no topic's name.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.serdes.serde import Serde
from storekeeper.topology.failures import OnError
from storekeeper.topology.serde_checks import Serdes
from storekeeper.topology.store import Store
from storekeeper.topology.topology_store import TopologyStore, check_options, rows_spec

if TYPE_CHECKING:
    from storekeeper.topology.functions import Push
    from storekeeper.topology.table import Table
    from storekeeper.topology.wiring import Wiring

LONGEST_NAME = 80


class Graph:
    """The nodes of one topology, in the order of their declaration.

    Attributes:
        stream: makes the stream of a node's records, with these serdes.
        on_error: the policy of operators that are added; None for the app's.
    """

    def __init__(self, app: str, stream: Callable[[GraphNode, Serdes], Any]) -> None:
        self.app = checked_name(app)
        self.stream = stream
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
        raise ConfigurationError(f"{others[0]} is of another StreamsBuilder: describe all that meets with one")


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
