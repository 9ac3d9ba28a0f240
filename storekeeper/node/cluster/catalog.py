"""A node's catalog: its stores, their partitions and holders, and the node's own replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import xxhash

from storekeeper.changelog.partitioner import partition_for
from storekeeper.errors import StoreMigratedError, StoreRestoringError, UnknownStoreError
from storekeeper.names import store_of
from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.routing import RoutingTable
from storekeeper.node.cluster.view import Member
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.store_definitions import StoreDefinition

_NAMED_STORES = 20
_NOBODY_FRESHER_S = 1.0


class NotHeldError(StoreMigratedError):
    """This node doesn't hold a partition. `holders` are the nodes that do, as far as known."""

    def __init__(self, message: str, holders: Sequence[str], epoch: str) -> None:
        super().__init__(message)
        self.holders = list(holders)
        self.epoch = epoch

    def details(self) -> Mapping[str, object]:
        """The fields of an error answer besides the message."""
        return {"holders": self.holders, "epoch": self.epoch}


class Catalog:
    """The stores, partitions and replicas that this node knows of. Any thread may read.

    Stores are known at once; partitions, nodes and replicas come from the broker and heartbeats.

    Methods also take a variant as store, `store@topic`: the store's rows from another topic than the configured one.
    Callers ask for a store; `serving` maps it to the variant that answers. A plain name means the configured topic.

    Attributes:
        node: this node's name.
        definitions: the definition of each store.
        topics: configured changelog topic by store.
        serving: the variant that answers, by store; a store that isn't there answers by its own name.
        aliased: `serving` as bytes, but only the stores whose variant has another name.
        wanted: topic by variant, for all variants that nodes should hold.
        was_ready: whether the node was ready before; see `readiness`.
        addresses: base address of each current node by name, including this one.
        table: the current routing table; None before the heartbeats were read.
        missing: nodes that are silent and no longer members.
        epoch: of the assignment and of the serving variants; empty before it is known.
        replicas: this node's current replicas; none before the assignment is known.
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
        self.aliased: Mapping[bytes, bytes] = {}
        self.wanted: Mapping[str, str] = dict(self.topics)
        self.was_ready = False
        self.addresses = addresses
        self._acceptable_staleness_s = acceptable_staleness_ms / 1000
        self._suffix = ""
        self.epoch = ""
        self._aliases: Mapping[str, Alias] = {}
        self._assignment: Assignment | None = None
        self.table: RoutingTable | None = None
        self.missing: Sequence[Member] = ()
        self.replicas: Mapping[ReplicaId, Replica] = {}
        self._nobody_fresher_until_s = 0.0

    def complete(self, assignment: Assignment, replicas: Mapping[ReplicaId, Replica]) -> None:
        """Sets the assignment and this node's replicas. Enough by itself if the set of nodes is fixed."""
        self.replicas = replicas
        self._assignment = assignment

    def want(self, wanted: Mapping[str, str]) -> None:
        """Sets the variants that nodes should hold, with their topics."""
        self.wanted = wanted

    def set_aliases(self, aliases: Mapping[str, Alias]) -> None:
        """Sets the aliases, for `generation`. `follow` sets which variants answer."""
        self._aliases = aliases

    @property
    def names(self) -> Sequence[str]:
        """The stores that can be asked for, sorted."""
        return sorted(self.serving or self.definitions)

    def generation(self, store: str) -> int | None:
        """The generation that an alias gives for the topic of a store or variant; None if there is no such alias."""
        alias = self._aliases.get(store_of(store))
        return alias.generation if alias is not None and self.topic(store) == alias.topic else None

    def warm_topic(self, store: str) -> str | None:
        """Another topic that is held for the same store; None if there is none."""
        topics = [topic for variant, topic in self.wanted.items() if store_of(variant) == store_of(store)]
        return next((topic for topic in topics if topic != self.topic(store)), None)

    def follow(
        self,
        table: RoutingTable,
        replicas: Mapping[ReplicaId, Replica],
        serving: Mapping[str, str] | None = None,
    ) -> None:
        """Sets routing table, replicas and serving variants. The caller must not modify them afterwards."""
        self.addresses = table.addresses
        self.table = table
        self.complete(table.assignment, replicas)
        if serving is not None and serving != self.serving:
            self.serving = serving
            moved = sorted(variant for store, variant in serving.items() if variant != store)
            self._suffix = f"-{xxhash.xxh32_hexdigest(chr(0).join(moved).encode())}" if moved else ""
            self.aliased = {store.encode(): variant.encode() for store, variant in serving.items() if variant != store}
        self.epoch = table.epoch + self._suffix

    def variant(self, store: str) -> str:
        """The variant that answers for a store."""
        return self.serving.get(store, store)

    @property
    def acceptable_staleness_ms(self) -> int:
        """Replicas with at most this staleness count as equally fresh."""
        return round(self._acceptable_staleness_s * 1000)

    @property
    def is_complete(self) -> bool:
        """Whether the partition count of every store is known."""
        assignment = self._assignment
        return assignment is not None and assignment.partitions.keys() >= {self.variant(name) for name in self.names}

    @property
    def is_assigned(self) -> bool:
        """Whether this node is in the assignment; a node that has just joined isn't yet."""
        assignment = self._assignment
        return assignment is not None and self.node in assignment.nodes

    def topic(self, store: str) -> str:
        """The changelog of a store.

        Raises:
            UnknownStoreError: if there is no such store.
        """
        return self.definition(store).topic

    def definition(self, store: str) -> StoreDefinition:
        """The definition of a store or variant. Raises as `topic` does."""
        definition = self.definitions.get(store)
        return self._definition_of_variant(store) if definition is None else definition

    def partitions(self, store: str) -> int:
        """How many partitions a store has.

        Raises:
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the number isn't known yet.
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
        assignment, table = self._assigned(store), self.table
        holders = None if table is None else table.holders.get(ReplicaId(store, partition))
        return assignment.holders(store, partition) if holders is None else list(holders)

    def stores_of(self, node: str) -> list[str]:
        """The stores that a node holds partitions of, sorted; none until the assignment is known."""
        assignment = self._assignment
        held = set() if assignment is None else {store_of(store) for store, _, _ in assignment.held_by(node)}
        return sorted(held & set(self.names))

    def replica(self, store: str, partition: int) -> Replica | None:
        """This node's replica of a partition, or None if it holds none."""
        return self.replicas.get(ReplicaId(store, partition))

    def others_ready(self, replica_id: ReplicaId) -> bool:
        """Whether another node is known to serve a partition and not to be far behind."""
        table = self.table
        return table is not None and bool(table.ready.get(replica_id, frozenset()) - {self.node})

    def answers_best(self, replica: Replica, at_s: float) -> bool:
        """Whether no other node is likely to have fresher rows than this node's replica.

        A process that was stopped or cut off from the broker doesn't know which records it misses, only for how long.
        """
        fresh_at_s = replica.tracker.fresh_at_s
        if fresh_at_s is not None and at_s - fresh_at_s <= self._acceptable_staleness_s:
            return True
        return at_s < self._nobody_fresher_until_s or not self.others_ready(replica.replica_id)

    def nobody_is_fresher(self, at_s: float) -> None:
        """Notes that another node was asked and was no fresher: for a second, `answers_best` is true."""
        self._nobody_fresher_until_s = at_s + _NOBODY_FRESHER_S

    def not_held(self, store: str, partition: int) -> NotHeldError:
        """The error that names the other holders of a partition."""
        others = [node for node in self.holders(store, partition) if node != self.node]
        msg = f"node {self.node} does not hold partition {partition} of {store}"
        return NotHeldError(msg, others, self.epoch)

    def _definition_of_variant(self, variant: str) -> StoreDefinition:
        name, at, _ = variant.partition("@")
        definition = self.definitions.get(name)
        if definition is None or not at:
            known = ", ".join(self.names[:_NAMED_STORES]) or "none"
            raise UnknownStoreError(f"there is no store {variant[:140]!r} here: choose one of {known}")
        topic = self.wanted.get(variant)
        if topic is None:
            msg = f"node {self.node} holds no rows of {name} from the topic that is asked for: ask for {name}"
            raise NotHeldError(msg, [], self.epoch)
        return replace(definition, topic=topic)

    def _assigned(self, store: str) -> Assignment:
        topic = self.topic(store)
        assignment = self._assignment
        if assignment is None or store not in assignment.partitions:
            raise StoreRestoringError(f"this node waits for the broker to describe {topic}: ask again later")
        return assignment
