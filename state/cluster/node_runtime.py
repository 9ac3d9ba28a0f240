"""A node besides its HTTP server, built from its settings: replicas, heartbeats, assignment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from state.changelog.listener import logging_listener
from state.changelog.reader import ChangelogReader, ReaderSettings
from state.clock import Clock
from state.cluster.alias_topic import AliasWatch
from state.cluster.catalog import Catalog
from state.cluster.heartbeat_topic import KafkaHeartbeatChannel
from state.cluster.membership import Identity, Membership, static_view
from state.cluster.partition_counts import PartitionCounts
from state.cluster.rebalance_policy import RebalancePolicy, RebuildTurns
from state.cluster.replica_reconciler import ReconcilerSettings, ReplicaReconciler
from state.cluster.routing import Tolerance
from state.cluster.view import Member, ViewSettings
from state.private_files import private_folder
from state.replicas.cold_restore import ColdRestoreSettings, WorkerColdRestore
from state.replicas.group_offsets import GroupOffsets
from state.replicas.ranked_index import RankedIndex
from state.replicas.replica import Replica
from state.replicas.replica_rows import ReadRow
from state.replicas.replica_set import ReplicaSet
from state.replicas.replica_storage import (
    MemoryStorage,
    ReplicaStorage,
    RetainedReplicas,
    RocksDBStorage,
    check_no_links,
)
from state.replicas.states import ReplicaId
from state.security.peer_address import PeerAddressError, PeerRules, check_peer_address, system_resolver
from state.settings import NodeSettings
from state.store_definitions import ServedKind
from state.stores.rocksdb_options import bound_process_memory


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """The parts of a node besides its HTTP server. Start it once the server listens.

    Attributes:
        replicas: the stores of this node.
        membership: its heartbeats.
        reconciler: carries out the assignment.
        counts: partitions by store.
        aliases: which topic each store is answered from.
        progress: commits how far the replicas are.
    """

    replicas: ReplicaSet
    membership: Membership
    reconciler: ReplicaReconciler
    counts: PartitionCounts
    aliases: AliasWatch
    progress: GroupOffsets

    @property
    def following(self) -> bool:
        """Whether the replicas are being followed."""
        return self.replicas.following

    def start(self) -> None:
        """Starts following and joins the cluster; returns at once."""
        self.replicas.start()
        self.progress.start()
        self.aliases.start()
        self.counts.start()
        self.membership.start()

    def leave(self) -> None:
        """Sends a goodbye, so that this node is not asked any more. Blocks for at most two seconds."""
        self.membership.leave()

    def close(self) -> None:
        """Ends everything and closes the stores. Safe to call twice, or without `start`."""
        self.membership.close()
        self.counts.stop()
        self.aliases.stop()
        self.progress.stop()
        self.replicas.close()


def node_runtime(
    name: str,
    settings: NodeSettings,
    catalog: Catalog,
    *,
    secret: bytes,
    clock: Clock,
    index_for: Callable[[ReplicaId], RankedIndex | None],
    read_row_for: Callable[[ReplicaId], ReadRow],
    on_name_taken: Callable[[], None],
) -> NodeRuntime:
    """Makes the parts; starts nothing."""
    state_dir = settings.run_dir / "state" / name
    reader = ReaderSettings(settings.kafka)
    counts = PartitionCounts(lambda: catalog.wanted, lambda: ChangelogReader(reader), state_dir)
    turns = RebuildTurns(name)
    replicas = ReplicaSet(
        (),
        storage=_storage(settings, state_dir, clock),
        reader=reader,
        clock=clock,
        listener=logging_listener(clock),
        cold_restore=_cold_restore(settings, state_dir),
        index_for=index_for,
        read_row_for=read_row_for,
        cache_bytes=settings.row_cache_mib << 20,
        on_topic_changed=counts.ask_soon,
        may_rebuild=turns.has,
    )
    aliases = AliasWatch(settings.kafka, secret, settings.aliases_topic)
    rebalance = rebalance_policy_of(name, settings)
    reconciler = ReplicaReconciler(
        catalog,
        replicas,
        lambda: counts.known,
        _reconciler_settings(settings, rebalance),
        clock,
        aliases=lambda: aliases.known,
        sweep=RetainedReplicas(state_dir, clock, settings.keep_dropped_s).sweep,
    )

    def on_members(members: Sequence[Member]) -> None:
        turns.update(members)
        reconciler.update(members)

    identity = Identity(name, settings.address_of(name), settings.rack)
    view_settings = ViewSettings()
    membership = Membership(
        identity,
        secret=secret,
        channel=KafkaHeartbeatChannel(settings.kafka, settings.members_topic),
        view=static_view(settings.peer_addresses, identity, view_settings),
        settings=view_settings,
        clock=clock,
        rebalance=rebalance,
        allows=_AddressRule(settings),
        reports=reconciler.reports,
        on_members=on_members,
        on_name_taken=on_name_taken,
    )

    def held() -> Iterable[Replica]:
        return replicas.replicas.values()  # which mapping this is changes with the assignment

    progress = GroupOffsets(settings.kafka, name, held)
    return NodeRuntime(replicas, membership, reconciler, counts, aliases, progress)


class _AddressRule:
    """Whether requests may go to an announced address. Each address is checked once."""

    def __init__(self, settings: NodeSettings) -> None:
        self._rules = PeerRules.parse(settings.peer_networks)
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()

    def __call__(self, address: str) -> bool:
        with self._lock:
            found = self._known.get(address)
            if found is None:
                found = self._allowed(address)
                if len(self._known) < 1000:
                    self._known[address] = found
            return found

    def _allowed(self, address: str) -> bool:
        try:
            check_peer_address(address, self._rules, system_resolver)
        except PeerAddressError:
            return False
        return True


def rebalance_policy_of(name: str, settings: NodeSettings) -> RebalancePolicy:
    """The rules for a node. A configured node doesn't wait: it is counted on from the start."""
    needed = 1 + max((settings.replicas, *settings.replicas_by_store.values()))
    return RebalancePolicy(needed, 0 if name in settings.peer_addresses else settings.join_delay_ms / 1000)


def _reconciler_settings(settings: NodeSettings, rebalance: RebalancePolicy) -> ReconcilerSettings:
    definitions = settings.definitions.items()
    return ReconcilerSettings(
        replicas=settings.replicas,
        replicas_of=settings.replicas_by_store,
        everywhere=frozenset(name for name, definition in definitions if definition.kind is ServedKind.GLOBAL),
        rebalance=rebalance,
        tolerance=Tolerance(staleness_ms=settings.acceptable_staleness_ms),
    )


def _storage(settings: NodeSettings, state_dir: Path, clock: Clock) -> ReplicaStorage:
    if settings.backend == "memory":
        return MemoryStorage()
    for folder in (settings.run_dir / "state", state_dir):
        private_folder(folder)
    check_no_links(state_dir)
    bound_process_memory(settings.memory_mib << 20)
    return RocksDBStorage(state_dir, clock)


def _cold_restore(settings: NodeSettings, state_dir: Path) -> WorkerColdRestore | None:
    if settings.backend == "memory":
        return None
    return WorkerColdRestore(state_dir, settings.kafka, ColdRestoreSettings())
