"""A cluster of nodes in this process: their real routes, asked by each other without a network, rows by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from prometheus_client import CollectorRegistry

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.restore import LogState
from storekeeper.clock import SystemClock
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.app import make_app
from storekeeper.node.query.forwarding import Peers, Router
from storekeeper.node.query.observing.metrics import Scrapes
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.freshness_gate import FreshnessGate
from storekeeper.node.query.reads.gather import Gatherer
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.query.reads.pages import CursorCodec, PageLimits, QueryLimits
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.query.reads.streams import Streams
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.store_definitions import parse_definitions
from storekeeper.stores.versioned import DELETED_VERSION, version_of
from tests.changelog.messages import Record
from tests.node.replicas.recording import RecordingListener

STORES = "rewards=r-log,players=p-log:ranked:Score,sales=w-log:window,visits=s-log:session,prices=v-log:versioned"
LIMITS = QueryLimits(max_key_bytes=1000, max_page_rows=1000, max_page_bytes=1 << 20, max_examined_rows=1000)


class InProcessNetwork(httpx2.AsyncBaseTransport):
    """Brings requests to nodes by their host name. A node in `down` refuses connections; `before_request` sees each."""

    def __init__(self) -> None:
        self.apps: dict[str, Any] = {}
        self.down: set[str] = set()
        self.before_request: Callable[[], None] = lambda: None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request, from a node or from a test."""
        host = request.url.host
        self.before_request()
        if host in self.down:
            raise httpx2.ConnectError("the node is down", request=request)
        return await httpx2.ASGITransport(self.apps[host]).handle_async_request(request)


class Node:
    """One node: its replicas, filled by `Cluster.write`."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.catalog = Catalog(name, cluster.addresses, cluster.definitions)
        budget = IndexBudget(cluster.ranked_bytes)
        self.replicas: dict[ReplicaId, Replica] = {}
        for store, partition, role in cluster.assignment.held_by(name):
            definition = cluster.definitions[store]
            index = None if definition.score_field is None else RankedIndex(definition.score_field, budget)
            replica = Replica(
                ReplicaId(store, partition),
                definition.topic,
                storage=MemoryStorage(),
                clock=cluster.clock,
                listener=RecordingListener(),
                role=role,
                index=index,
            )
            replica.open(LogState(definition.topic, "id", partition, 0, 0, 86_400_000))
            self.replicas[replica.replica_id] = replica
        self.catalog.complete(cluster.assignment, self.replicas)
        peers = Peers(name, lambda: cluster.addresses, clock=cluster.clock, transport=lambda: cluster.network)
        self.router = Router(self.catalog, peers)
        gate = FreshnessGate(cluster.clock, lambda: None)
        gatherer = Gatherer(
            self.catalog,
            self.router,
            gate,
            cluster.clock,
            max_reads=cluster.max_reads,
            longest_s=5,
        )
        self.streams = Streams(gatherer, name, cluster.stream_limits, max_streams=4, longest_s=30)
        hot = HotReads(self.catalog, cluster.clock, cluster.limits)
        past = PastReads(name, cluster.tables, cluster.clock)
        limits, clock = cluster.limits, cluster.clock
        point = PointQueries(
            self.catalog, self.router, hot, limits=limits, longest_s=5, clock=clock, gate=gate, past=past
        )
        self.services = QueryServices(
            catalog=self.catalog,
            point=point,
            gatherer=gatherer,
            past=past,
            streams=self.streams,
            cursors=CursorCodec(b"s" * 32),
            scrapes=Scrapes(CollectorRegistry(), gatherer.scheduler, cluster.clock),
            limits=cluster.limits,
            backend="memory",
            following=lambda: True,
        )
        cluster.network.apps[name] = make_app(self.services)


class Cluster:
    """Nodes a, b, c with `partitions` of every store, `standbys` of each beside the active one."""

    def __init__(
        self,
        *,
        nodes: Iterable[str] = ("a", "b", "c"),
        partitions: int = 12,
        standbys: int = 0,
        limits: QueryLimits = LIMITS,
        stream_page_rows: int = 7,
        ranked_bytes: int = 64 << 20,
        max_reads: int = 32,
        stores: str = STORES,
        addresses: Mapping[str, str] | None = None,
        tables: Path = Path("/nonexistent"),
    ) -> None:
        names = list(nodes)
        self.clock = SystemClock()
        self.limits = limits
        self.tables = tables
        self.ranked_bytes = ranked_bytes
        self.max_reads = max_reads
        self.stream_limits = PageLimits(stream_page_rows, 1 << 20, limits.max_examined_rows)
        self.definitions = parse_definitions(stores)
        self.addresses = addresses or {name: f"http://{name}:80" for name in names}
        self.assignment = Assignment(tuple(names), dict.fromkeys(self.definitions, partitions), standbys)
        self.network = InProcessNetwork()
        self._ends: dict[ReplicaId, int] = {}
        self._written: set[tuple[ReplicaId, bytes]] = set()
        self.nodes = {name: Node(name, self) for name in names}

    def write(self, store: str, key: bytes, value: bytes | None, *, row_key: bytes | None = None) -> None:
        """Writes one row to all its replicas; `row_key` is what the store keeps it by, if not the key."""
        partition = partition_for(key, self.assignment.partitions[store])
        self.write_to(ReplicaId(store, partition), row_key or key, value)

    def write_to(self, replica_id: ReplicaId, row_key: bytes, value: bytes | None) -> None:
        """Writes one record to all replicas of a partition."""
        self._written.add((replica_id, row_key))
        offset = self._ends.get(replica_id, 0)
        self._ends[replica_id] = offset + 1
        topic = self.definitions[replica_id.store].topic
        for node in self.nodes.values():
            if replica_id in node.replicas:
                batch = PartitionBatch(
                    topic, replica_id.partition, [Record(offset, row_key, value)], offset + 1, end_reached=True
                )
                node.replicas[replica_id].apply(batch)

    def write_window(self, key: bytes, start_ms: int, value: bytes | None) -> None:
        """One window of store `sales`."""
        self.write("sales", key, value, row_key=window_row_key(key, start_ms))

    def write_session(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None:
        """One session of store `visits`."""
        self.write("visits", key, value, row_key=session_row_key(key, start_ms, end_ms))

    def write_version(self, key: bytes, valid_from_ms: int, value: bytes | None) -> None:
        """One version of store `prices`; None says that the key was deleted then."""
        stored = DELETED_VERSION if value is None else version_of(value)
        self.write("prices", key, stored, row_key=version_row_key(key, valid_from_ms))

    def clear(self) -> None:
        """Deletes every row: a cluster takes longer to make than to fill."""
        for replica_id, row_key in list(self._written):
            self.write_to(replica_id, row_key, None)
        self._written.clear()

    async def post(self, node: str, path: str) -> httpx2.Response:
        """One request to a node that changes something, as another node or job signs it."""
        async with httpx2.AsyncClient(transport=self.network) as client:
            return await client.post(f"http://{node}{path}")

    async def get(self, node: str, path: str, **headers: str) -> httpx2.Response:
        """One request to a node, from outside."""
        async with httpx2.AsyncClient(transport=self.network) as client:
            return await client.get(
                f"http://{node}{path}", headers={name.replace("_", "-"): value for name, value in headers.items()}
            )
