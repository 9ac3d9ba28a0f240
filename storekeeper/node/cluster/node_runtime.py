"""A node besides its HTTP server, built from its settings: replicas, heartbeats, assignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from storekeeper.changelog.listener import logging_listener
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings
from storekeeper.clock import Clock
from storekeeper.node.cluster.aliases import AliasWatch
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import HeartbeatChannel
from storekeeper.node.cluster.membership import Identity, Membership, static_view
from storekeeper.node.cluster.partition_counts import PartitionCounts
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy, RebuildTurns
from storekeeper.node.cluster.replica_reconciler import ReconcilerSettings, ReplicaReconciler
from storekeeper.node.cluster.routing import Tolerance
from storekeeper.node.cluster.view import Member, ViewSettings
from storekeeper.node.peer_address import PeerRules
from storekeeper.node.replicas.cold_restore import WorkerColdRestore
from storekeeper.node.replicas.group_offsets import GroupOffsets
from storekeeper.node.replicas.ranked_index import RankedIndex
from storekeeper.node.replicas.replica_rows import ReadRow
from storekeeper.node.replicas.replica_set import ReplicaSet
from storekeeper.node.replicas.replica_storage import (
    MemoryStorage,
    ReplicaStorage,
    RetainedReplicas,
    RocksDBStorage,
    check_no_links,
)
from storekeeper.node.settings import NodeSettings
from storekeeper.private_files import private_folder
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.stores.rocksdb_options import bound_process_memory
from storekeeper.stores.store_definitions import ServedKind


class NodeRuntime:
    """The parts of a node besides its HTTP server. Start it once the server listens."""

    def __init__(
        self,
        name: str,
        settings: NodeSettings,
        catalog: Catalog,
        *,
        secret: bytes,
        clock: Clock,
        index_for: Callable[[ReplicaId], RankedIndex | None],
        read_row_for: Callable[[ReplicaId], ReadRow],
        on_name_taken: Callable[[], None],
    ) -> None:
        self._catalog = catalog
        state_dir = settings.run_dir / "state" / name
        reader = ReaderSettings(settings.kafka)
        seeds = SeedTables.of(settings)
        cold_restore = WorkerColdRestore(state_dir, settings.kafka, seeds=seeds)
        self._aliases = AliasWatch(settings.kafka, secret)
        self._counts = PartitionCounts(
            lambda: catalog.wanted,
            lambda: ChangelogReader(reader),
            state_dir,
            aliases=lambda: self._aliases.known,
            heard=lambda: self.membership.heard_topics,
        )
        self._turns = RebuildTurns(name)
        self.replicas = ReplicaSet(
            (),
            storage=_storage(settings, state_dir, clock),
            reader=reader,
            clock=clock,
            listener=logging_listener(clock),
            cold_restore=None if settings.backend == "memory" else cold_restore,
            index_for=index_for,
            read_row_for=read_row_for,
            cache_bytes=settings.row_cache_mib << 20,
            on_topic_changed=self._counts.ask_soon,
            may_rebuild=self._turns.has,
        )
        rebalance = rebalance_policy_of(name, settings)
        self._reconciler = ReplicaReconciler(
            catalog,
            self.replicas,
            lambda: self._counts.known,
            _reconciler_settings(settings, rebalance),
            clock,
            aliases=lambda: self._aliases.known,
            sweep=RetainedReplicas(state_dir, clock).sweep,
        )
        identity = Identity(name, settings.address_of(name), settings.rack)
        view_settings = ViewSettings()
        self.membership = Membership(
            identity,
            secret=secret,
            channel=HeartbeatChannel(settings.kafka),
            view=static_view(settings.peer_addresses, identity, view_settings),
            settings=view_settings,
            clock=clock,
            rebalance=rebalance,
            peers=PeerRules.parse(settings.peer_networks),
            reports=self._reconciler.reports,
            topics=lambda: self._counts.topic_ids,
            on_members=self._update,
            on_name_taken=on_name_taken,
        )
        self._progress = GroupOffsets(settings.kafka, name, self.replicas.held)

    def start(self) -> None:
        """Starts following and joins the cluster; returns at once."""
        self.replicas.start()
        self._progress.start()
        self._aliases.start()
        self._counts.start()
        self.membership.start()

    def close(self) -> None:
        """Ends everything and closes the stores. Safe to call twice, or without `start`."""
        self.membership.close()
        self._counts.stop()
        self._aliases.stop()
        self._progress.stop()
        self.replicas.close()

    def _update(self, members: Sequence[Member], missing: Sequence[Member]) -> None:
        self._catalog.missing = missing
        self._turns.update(members)
        self._reconciler.update(members)


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
