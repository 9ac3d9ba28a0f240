"""All replicas of one node: gained and dropped by the assignment, followed by one thread, found by store and partition.

Polls the end offsets of the changelogs, so that replicas know their freshness; at once when a read waits.

It also notices within two polls that a changelog was deleted, or deleted and recreated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import structlog

from storekeeper.changelog.listener import RestoreListener
from storekeeper.changelog.log_ends import LogEnds
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings
from storekeeper.clock import Clock
from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.node.replicas.cold_restore import WorkerColdRestore
from storekeeper.node.replicas.follower import Follower
from storekeeper.node.replicas.ranked_index import RankedIndex
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_rows import ReadRow, RowCache
from storekeeper.node.replicas.replica_storage import ReplicaStorage
from storekeeper.protocol.replica_freshness import SourceProgress
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaStatus
from storekeeper.stores.row import decode_row

log = structlog.get_logger(__name__)

POLL_S = 0.25
"""A poll is two requests for all partitions, on every node: at 0.1 s, three were a third of what an idle node costs."""


class EndOffsetPoller:
    """One thread that requests the end offsets of the changelogs of `replicas()` every `every_s` seconds, and
    calls `on_topic_changed` when a changelog was deleted or recreated.

    Any thread may call anything.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[Replica]],
        ends: Callable[[], LogEnds],
        clock: Clock,
        *,
        every_s: float = POLL_S,
        on_topic_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._replicas = replicas
        self._make_ends = ends
        self._clock = clock
        self._every_s = every_s
        self._on_topic_changed = on_topic_changed
        self._wanted = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="end-offset-poller", daemon=True)

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def ask_soon(self) -> None:
        """Starts the next poll as soon as the current one has ended."""
        self._wanted.set()

    def ask_once(self, ends: LogEnds) -> None:
        """Polls once, for all open replicas."""
        asked = {
            (replica.topic, replica.replica_id.partition): replica for replica in self._replicas() if replica.is_open
        }
        if not asked:
            return
        now_s = self._clock.monotonic_s()
        requests = {where: replica.request(now_s) for where, replica in asked.items()}
        answered = ends.ends(list(asked))
        changed = [asked[where].heard_end(requests[where], end) for where, end in answered.items()]
        if any(changed):
            self._on_topic_changed()

    def stop(self) -> None:
        """Ends after the current poll. Safe to call twice, or without `start`."""
        self._stopped = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        ends: LogEnds | None = None
        while not self._stopped:
            self._wanted.clear()
            try:
                ends = ends or self._make_ends()
                self.ask_once(ends)
            except Exception:
                log.exception("end_offsets_unknown")
            self._wanted.wait(self._every_s)


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica that a node should hold. `topic_id` is the `known_topic_id` of a `Replica`."""

    replica: ReplicaId
    topic: str
    role: ReplicaRole
    topic_id: str | None = None


class ReplicaSet:
    """The replicas of one node. A context manager that starts following on entering and closes everything on leaving.

    Reads may come from any thread. `cache_bytes` bounds the answers kept of each store's rows; 0 keeps none.
    `on_topic_changed` is called, from a thread of its own, when a changelog was deleted or recreated.
    A replica that was behind for too long keeps its rows until `may_rebuild` allows dropping them.

    Attributes:
        end_offset_poller: polls the end offsets of the changelogs, for the replicas' freshness.
    """

    def __init__(
        self,
        specs: Iterable[ReplicaSpec],
        *,
        storage: ReplicaStorage,
        reader: ReaderSettings,
        clock: Clock,
        listener: RestoreListener,
        cold_restore: WorkerColdRestore | None = None,
        index_for: Callable[[ReplicaId], RankedIndex | None] = lambda _: None,
        read_row_for: Callable[[ReplicaId], ReadRow] = lambda _: decode_row,
        cache_bytes: int = 0,
        on_topic_changed: Callable[[], None] = lambda: None,
        may_rebuild: Callable[[ReplicaId], bool] = lambda _: True,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._listener = listener
        self._index_for = index_for
        self._read_row_for = read_row_for
        self._may_rebuild = may_rebuild
        self._caches: dict[str, RowCache] = {}
        self._restores: dict[str, LatencyRecorder] = {}
        self._cache_bytes = cache_bytes
        self._source_progress: dict[tuple[str, str], SourceProgress] = {}
        self._changing = threading.Lock()
        # Never changed in place: readers iterate over it while replicas come and go.
        self._replicas: Mapping[ReplicaId, Replica] = {spec.replica: self._make(spec) for spec in specs}
        self.end_offset_poller = EndOffsetPoller(
            self.held, lambda: LogEnds(reader.kafka), clock, on_topic_changed=on_topic_changed
        )
        self._cold_restore = cold_restore
        self._follower = Follower(
            self._replicas.values(), lambda: ChangelogReader(reader), clock, cold_restore=cold_restore
        )
        self._thread = threading.Thread(target=self._follower.run, name="follower", daemon=True)

    @property
    def replicas(self) -> Mapping[ReplicaId, Replica]:
        """The current replicas by id: a mapping that doesn't change when replicas come and go."""
        return self._replicas

    @property
    def following(self) -> bool:
        """Whether the follower's thread is alive."""
        return self._thread.is_alive()

    def statuses(self) -> list[ReplicaStatus]:
        """One look at each, sorted by store and partition."""
        return [self._replicas[replica_id].status() for replica_id in sorted(self._replicas)]

    def gain(self, spec: ReplicaSpec) -> None:
        """Holds one more replica, which answers once it has caught up. Does nothing if it is held already."""
        with self._changing:
            if spec.replica not in self._replicas:
                replica = self._make(spec)
                self._replicas = {**self._replicas, spec.replica: replica}
                self._follower.admit(replica)

    def drop(self, replica_id: ReplicaId) -> None:
        """Stops holding a replica; its rows stay on the disk. Reads that find it closed should ask another node."""
        with self._changing:
            replica = self._replicas.get(replica_id)
            if replica is not None:
                self._replicas = {held: each for held, each in self._replicas.items() if held != replica_id}
                self._follower.release(replica)

    def assign_role(self, replica_id: ReplicaId, role: ReplicaRole) -> None:
        """Changes which queries prefer a replica. Nothing is opened or closed for it."""
        replica = self._replicas.get(replica_id)
        if replica is not None:
            replica.role = role

    def start(self) -> None:
        """Starts following and returns at once: replicas answer one after the other as they catch up."""
        self._thread.start()
        self.end_offset_poller.start()

    def close(self) -> None:
        """Ends following after the current batch, and closes every store. Safe to call twice."""
        self.end_offset_poller.stop()
        self._follower.stop()
        if self._cold_restore is not None:
            self._cold_restore.close()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def held(self) -> Iterable[Replica]:
        """The current replicas: others than before once the assignment has changed."""
        return self._replicas.values()

    def _make(self, spec: ReplicaSpec) -> Replica:
        replica = Replica(
            spec.replica,
            spec.topic,
            storage=self._storage,
            clock=self._clock,
            listener=self._listener,
            role=spec.role,
            source_progress_of=partial(self._source_progress_of, spec.replica.store),
            index=self._index_for(spec.replica),
            read_row=self._read_row_for(spec.replica),
            may_rebuild=partial(self._may_rebuild, spec.replica),
            cache=self._caches.setdefault(spec.replica.store, RowCache(self._cache_bytes))
            if self._cache_bytes
            else None,
            restores=self._restores.setdefault(spec.replica.store, LatencyRecorder()),
        )
        replica.known_topic_id = spec.topic_id
        return replica

    def _source_progress_of(self, store: str, topic_id: str) -> SourceProgress:
        return self._source_progress.setdefault((store, topic_id), SourceProgress())
