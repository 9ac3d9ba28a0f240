"""What a node serves: its stores, their partitions, who holds them, and the replicas that it holds itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import xxhash

from state.changelog.partitioner import partition_for
from state.cluster.aliases import Alias
from state.cluster.routing import RoutingTable
from state.errors import StoreMigratedError, StoreRestoringError, UnknownStoreError
from state.names import store_of
from state.query.assignment import Assignment
from state.query.definitions import StoreDefinition
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId

_NOBODY_FRESHER_S = 1.0


class NotHeldError(StoreMigratedError):
    """This node doesn't hold a partition. It says who does, as far as it knows."""

    def __init__(self, message: str, holders: Sequence[str], epoch: str) -> None:
        super().__init__(message)
        self.holders = list(holders)
        self.epoch = epoch

    def details(self) -> Mapping[str, object]:
        """What an error answer says beside the message."""
        return {"holders": self.holders, "epoch": self.epoch}


class Catalog:
    """Where a method takes a store, it may be a variant, `store@topic`: rows of another topic than the configured one.

    Callers ask for a store; `serving` says which variant answers for it. A plain name is the configured topic's rows.

    Stores are known at once; partitions, nodes and replicas when broker and heartbeats have told. Any thread reads.

    Attributes:
        node: this node's name.
        definitions: what is served, by store.
        topics: configured changelog topic by store.
        serving: the variant that answers, by store; a store that isn't there answers by its own name.
        elsewhere: the same as bytes, of those stores only whose variant isn't named as they are.
        wanted: topic by variant, of all that nodes are to hold.
        was_ready: whether all that the node was to hold answered once.
    """

    def __init__(
        self,
        node: str,
        addresses: Mapping[str, str],
        definitions: Mapping[str, StoreDefinition],
        *,
        acceptable_staleness_ms: int = 2000,
    ) -> None:
        self.node = node
        self.definitions = definitions
        self.topics = {name: definition.topic for name, definition in definitions.items()}
        self.serving: Mapping[str, str] = {}
        self.elsewhere: Mapping[bytes, bytes] = {}
        self.wanted: Mapping[str, str] = dict(self.topics)
        self.was_ready = False
        self._addresses = addresses
        self._acceptable_staleness_s = acceptable_staleness_ms / 1000
        self._suffix = ""
        self._epoch = ""
        self._aliases: Mapping[str, Alias] = {}
        self._assignment: Assignment | None = None
        self._table: RoutingTable | None = None
        self._replicas: Mapping[ReplicaId, Replica] = {}
        self._nobody_fresher_until_s = 0.0

    def complete(self, assignment: Assignment, replicas: Mapping[ReplicaId, Replica]) -> None:
        """Who holds what, and what is held here, where nodes don't come and go."""
        self._replicas = replicas
        self._assignment = assignment

    def want(self, wanted: Mapping[str, str]) -> None:
        """The variants that nodes are to hold, with their topics, as of now."""
        self.wanted = wanted

    def heed(self, aliases: Mapping[str, Alias]) -> None:
        """The aliases as of now: what is said of generations. What answers is told to `follow`."""
        self._aliases = aliases

    @property
    def names(self) -> Sequence[str]:
        """The stores that can be asked for, sorted."""
        return sorted(self.serving or self.definitions)

    def generation(self, store: str) -> int | None:
        """The generation that an alias names for the topic of a store or a variant; None if none does."""
        alias = self._aliases.get(store_of(store))
        return alias.generation if alias is not None and self.topic(store) == alias.topic else None

    def warm_topic(self, store: str) -> str | None:
        """The other topic that is held for the store of a variant, if there is one."""
        topics = [topic for variant, topic in self.wanted.items() if store_of(variant) == store_of(store)]
        return next((topic for topic in topics if topic != self.topic(store)), None)

    def follow(
        self,
        table: RoutingTable,
        replicas: Mapping[ReplicaId, Replica],
        serving: Mapping[str, str] | None = None,
    ) -> None:
        """The same as of now, again and again. None of it may change any more."""
        self._addresses = table.addresses
        self._table = table
        self.complete(table.assignment, replicas)
        if serving is not None and serving != self.serving:
            self.serving = serving
            moved = sorted(variant for store, variant in serving.items() if variant != store)
            self._suffix = f"-{xxhash.xxh32_hexdigest(chr(0).join(moved).encode())}" if moved else ""
            self.elsewhere = {
                store.encode(): variant.encode() for store, variant in serving.items() if variant != store
            }
        self._epoch = table.epoch + self._suffix

    def variant(self, store: str) -> str:
        """The variant that answers for a store."""
        return self.serving.get(store, store)

    @property
    def addresses(self) -> Mapping[str, str]:
        """Base address by node name, this one included: the nodes as of now."""
        return self._addresses

    @property
    def table(self) -> RoutingTable | None:
        """Whom to ask, as of now; None before the heartbeats were heard."""
        return self._table

    @property
    def epoch(self) -> str:
        """The name of the assignment and of what answers; empty before it is known."""
        return self._epoch

    @property
    def replicas(self) -> Mapping[ReplicaId, Replica]:
        """This node's replicas as of now; none before it knows what it is to hold."""
        return self._replicas

    @property
    def acceptable_staleness_ms(self) -> int:
        """A replica that is known to be no staler is as good as any other."""
        return round(self._acceptable_staleness_s * 1000)

    @property
    def is_complete(self) -> bool:
        """Whether the broker has told of every store."""
        assignment = self._assignment
        return assignment is not None and assignment.partitions.keys() >= {self.variant(name) for name in self.names}

    @property
    def is_seated(self) -> bool:
        """Whether this node is among those that partitions are spread over: one that has just joined isn't yet."""
        assignment = self._assignment
        return assignment is not None and self.node in assignment.nodes

    def topic(self, store: str) -> str:
        """The changelog of a store.

        Raises:
            UnknownStoreError: if there is no such store.
        """
        return self.definition(store).topic

    def definition(self, store: str) -> StoreDefinition:
        """What a store is. Raises as `topic` does."""
        definition = self.definitions.get(store)
        return self._definition_of_variant(store) if definition is None else definition

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
        """The nodes to ask for a partition, the best one first. Raises as `partitions` does."""
        assignment, table = self._assigned(store), self._table
        found = None if table is None else table.holders.get(ReplicaId(store, partition))
        return assignment.holders(store, partition) if found is None else list(found)

    def stores_of(self, node: str) -> list[str]:
        """The stores of which a node holds partitions, sorted; none until they are known."""
        assignment = self._assignment
        held = set() if assignment is None else {store_of(store) for store, _, _ in assignment.held_by(node)}
        return sorted(held & set(self.names))

    def replica(self, store: str, partition: int) -> Replica | None:
        """This node's replica of a partition, or None if it holds none."""
        return self._replicas.get(ReplicaId(store, partition))

    def others_ready(self, replica_id: ReplicaId) -> bool:
        """Whether another node is known to serve a partition and not to be far behind."""
        table = self._table
        return table is not None and bool(table.ready.get(replica_id, frozenset()) - {self.node})

    def answers_best(self, replica: Replica, at_s: float) -> bool:
        """Whether no other node is likely to have fresher rows than this node's replica.

        A process that was stopped, or cut off from the broker, doesn't know what it misses. It knows for how long.
        """
        fresh_at_s = replica.tracker.fresh_at_s
        if fresh_at_s is not None and at_s - fresh_at_s <= self._acceptable_staleness_s:
            return True
        return at_s < self._nobody_fresher_until_s or not self.others_ready(replica.replica_id)

    def nobody_is_fresher(self, at_s: float) -> None:
        """Another node was asked because of that, and was no better: for a moment, none is asked."""
        self._nobody_fresher_until_s = at_s + _NOBODY_FRESHER_S

    def not_held(self, store: str, partition: int) -> NotHeldError:
        """The error that sends the asker elsewhere."""
        found = [node for node in self.holders(store, partition) if node != self.node]
        msg = f"node {self.node} does not hold partition {partition} of {store}"
        return NotHeldError(msg, found, self.epoch)

    def _definition_of_variant(self, variant: str) -> StoreDefinition:
        name, at, _ = variant.partition("@")
        definition = self.definitions.get(name)
        if definition is None or not at:
            msg = f"there is no store {variant[:140]!r} here: GET /state/stores lists them"
            raise UnknownStoreError(msg)
        topic = self.wanted.get(variant)
        if topic is None:
            msg = f"node {self.node} holds no rows of {name} from the topic that is asked for: ask for {name}"
            raise NotHeldError(msg, [], self.epoch)
        return replace(definition, topic=topic)

    def _assigned(self, store: str) -> Assignment:
        topic = self.topic(store)
        assignment = self._assignment
        if assignment is None or store not in assignment.partitions:
            msg = f"this node waits for the broker to describe {topic}: ask again later"
            raise StoreRestoringError(msg)
        return assignment
