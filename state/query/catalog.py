"""What a node serves: its stores, their partitions, who holds them, and the replicas that it holds itself."""

from __future__ import annotations

from collections.abc import Mapping

from state.changelog.partitioner import partition_for
from state.errors import StoreRestoringError, UnknownStoreError
from state.query.assignment import Assignment
from state.query.definitions import StoreDefinition
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId


class Catalog:
    """Filled in two steps: stores at once, their partitions when the broker has told of them. Safe from any thread.

    Attributes:
        node: this node's name.
        addresses: base address by node name, this one included.
        definitions: what is served, by store.
        topics: changelog topic by store.
    """

    def __init__(self, node: str, addresses: Mapping[str, str], definitions: Mapping[str, StoreDefinition]) -> None:
        self.node = node
        self.addresses = addresses
        self.definitions = definitions
        self.topics = {name: definition.topic for name, definition in definitions.items()}
        self._assignment: Assignment | None = None
        self._replicas: Mapping[ReplicaId, Replica] = {}

    def complete(self, assignment: Assignment, replicas: Mapping[ReplicaId, Replica]) -> None:
        """The second step."""
        self._replicas = replicas
        self._assignment = assignment

    @property
    def replicas(self) -> Mapping[ReplicaId, Replica]:
        """This node's replicas; none before the second step."""
        return self._replicas

    @property
    def is_complete(self) -> bool:
        """Whether the second step is done."""
        return self._assignment is not None

    def topic(self, store: str) -> str:
        """The changelog of a store.

        Raises:
            UnknownStoreError: if there is no such store.
        """
        return self.definition(store).topic

    def definition(self, store: str) -> StoreDefinition:
        """What a store is. Raises as `topic` does."""
        definition = self.definitions.get(store)
        if definition is None:
            msg = f"there is no store {store[:140]!r} here: GET /state/stores lists them"
            raise UnknownStoreError(msg)
        return definition

    def partitions(self, store: str) -> int:
        """How many partitions a store has.

        Raises:
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the broker hasn't told yet.
        """
        return self._assigned(store).partitions[store]

    def partition(self, store: str, key: bytes) -> int:
        """The partition that holds a key. Raises as `partitions` does."""
        assignment = self._assignment
        if assignment is None or store not in assignment.partitions:
            assignment = self._assigned(store)
        return partition_for(key, assignment.partitions[store])

    def holders(self, store: str, partition: int) -> list[str]:
        """The nodes that hold a partition, the active one first. Raises as `partitions` does."""
        return self._assigned(store).holders(store, partition)

    def stores_of(self, node: str) -> list[str]:
        """The stores of which a node holds partitions, sorted; none until they are known."""
        assignment = self._assignment
        return [] if assignment is None else sorted({store for store, _, _ in assignment.held_by(node)})

    def replica(self, store: str, partition: int) -> Replica | None:
        """This node's replica of a partition, or None if it holds none."""
        return self._replicas.get(ReplicaId(store, partition))

    def _assigned(self, store: str) -> Assignment:
        topic = self.topic(store)
        if self._assignment is None:
            msg = f"this node waits for the broker to describe {topic}: ask again later"
            raise StoreRestoringError(msg)
        return self._assignment
