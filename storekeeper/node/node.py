"""A serving node: follows changelogs into local stores and answers queries."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from storekeeper.clock import Clock, SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.access import check_login
from storekeeper.names import checked_name
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.node_runtime import NodeRuntime
from storekeeper.node.cluster.view import ViewSettings
from storekeeper.node.node_log import configure_log
from storekeeper.node.query.app import make_app
from storekeeper.node.query.forwarding import FORWARD_TIMEOUT_MS, Peers, Router
from storekeeper.node.query.http.connection import ConnectionLimits
from storekeeper.node.query.http.server import serve
from storekeeper.node.query.observing.metrics import NodeCollector, Scrapes
from storekeeper.node.query.observing.spans import Spans, TracingVariables, tracer
from storekeeper.node.query.protection.guard import Guard, GuardLimits
from storekeeper.node.query.protection.request_counts import Traffic
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.freshness_gate import FreshnessGate
from storekeeper.node.query.reads.gather import Gatherer
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.query.reads.pages import CursorCodec, PageLimits, QueryLimits
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.query.reads.streams import Streams
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex, as_it_is
from storekeeper.node.replicas.replica_rows import ReadRow
from storekeeper.node.security.exposure import NodeSecurity
from storekeeper.node.settings import NodeSettings, load_node_settings
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.schemas.registry import registry_of
from storekeeper.stores.row import decode_row
from storekeeper.stores.store_definitions import ServedKind

if TYPE_CHECKING:
    from storekeeper.node.replicas.schema_rows import SchemaRows

log = structlog.get_logger(__name__)

_STREAM_PAGE_ROWS = 1000
_STREAM_PAGE_BYTES = 1 << 20
_STREAM_TIMEOUT_S = 600.0
"""A stream that takes longer is ended: its client is slow, and it has one of few places."""


class Node:
    """One node's replicas and queries. `run` serves until it is stopped."""

    def __init__(self, name: str, settings: NodeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._port = settings.port_of(name)
        self._security = NodeSecurity.of(name, settings, clock)
        self._catalog = Catalog(
            name,
            {**settings.peer_addresses, name: settings.address_of(name)},
            settings.definitions,
            acceptable_staleness_ms=settings.acceptable_staleness_ms,
        )
        self._index_budget = IndexBudget(settings.ranked_memory_mib << 20)
        self._schema_rows = schema_rows(settings, clock)
        self._tracer = tracer(TracingVariables())
        self._stop = asyncio.Event()
        self._name_taken = False
        self._runtime = NodeRuntime(
            name,
            settings,
            self._catalog,
            secret=self._security.secret,
            clock=clock,
            index_for=self._index,
            read_row_for=self._read_row,
            on_name_taken=self._give_up_name,
        )

    async def run(self) -> None:
        """Serves until TERM or INT, then closes the stores.

        Raises:
            OSError: if the port is taken.
            ConfigurationError: if another node of this name was started later.
        """
        settings = self._settings
        limits = QueryLimits(max_examined_rows=settings.max_examined_rows)
        self._loop = asyncio.get_running_loop()
        peers = Peers(
            self._catalog.node,
            lambda: self._catalog.addresses,
            clock=self._clock,
            sign=self._security.sign,
            transport=self._security.transport,
        )
        router = Router(self._catalog, peers)
        gate = FreshnessGate(self._clock, self._runtime.replicas.end_offset_poller.ask_soon)
        hot = HotReads(self._catalog, self._clock, limits)
        past = PastReads(self._catalog.node, settings.tables, self._clock, shown=self._shown)
        point = PointQueries(
            self._catalog,
            router,
            hot,
            limits=limits,
            longest_s=FORWARD_TIMEOUT_MS / 1000,
            clock=self._clock,
            gate=gate,
            past=past,
        )
        gatherer = Gatherer(
            self._catalog,
            router,
            gate,
            self._clock,
            max_reads=settings.max_scans,
            longest_s=FORWARD_TIMEOUT_MS / 1000,
        )
        traffic = Traffic()
        metrics = NodeCollector(
            self._catalog, point, router, heartbeats=self._runtime.membership.counts, traffic=traffic
        )
        services = QueryServices(
            catalog=self._catalog,
            point=point,
            gatherer=gatherer,
            past=past,
            streams=self._streams(gatherer),
            cursors=CursorCodec(self._security.secret),
            scrapes=Scrapes(metrics, gatherer.scheduler, self._clock),
            limits=limits,
            backend=settings.backend,
            following=lambda: self._runtime.replicas.following,
        )
        try:
            guard = Guard(
                make_app(services),
                self._catalog.node,
                limits=GuardLimits(max_requests=settings.max_requests),
                authenticator=self._security.authenticator,
                hops=self._security.hops,
                hosts=self._security.hosts,
                traffic=traffic,
                hot=hot,
            )
            await serve(
                guard if self._tracer is None else Spans(guard, self._catalog.node, self._tracer),
                settings.listen_host,
                self._port,
                self._stop,
                hot=guard.now,
                limits=ConnectionLimits(
                    max_connections=settings.max_connections,
                    max_client_connections=settings.max_client_connections,
                ),
                tls=None if self._security.tls is None else self._security.tls.server_context(),
                listening=self._membership(),
                traffic=traffic,
            )
        finally:
            past.close()
            await peers.close()
            self._runtime.close()
            if self._schema_rows is not None:
                self._schema_rows.close()
            log.info("node_stopped", node=self._catalog.node)
        if self._name_taken:
            msg = f"another node {self._catalog.node!r} was started: every node needs a name of its own"
            raise ConfigurationError(msg)

    @asynccontextmanager
    async def _membership(self) -> AsyncIterator[None]:
        """A member while the server listens. After it leaves, it answers until the other nodes know that."""
        self._runtime.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self._runtime.membership.leave)
            await asyncio.sleep(2 * ViewSettings().interval_s)

    def _give_up_name(self) -> None:
        self._name_taken = True
        self._loop.call_soon_threadsafe(self._stop.set)

    def _streams(self, gatherer: Gatherer) -> Streams:
        limits = PageLimits(_STREAM_PAGE_ROWS, _STREAM_PAGE_BYTES, self._settings.max_examined_rows)
        return Streams(
            gatherer,
            self._catalog.node,
            limits,
            max_streams=self._settings.max_streams,
            longest_s=_STREAM_TIMEOUT_S,
        )

    def _index(self, replica: ReplicaId) -> RankedIndex | None:
        score_field, rows = self._catalog.definition(replica.store).score_field, self._schema_rows_of(replica.store)
        if score_field is None:
            return None
        return RankedIndex(score_field, self._index_budget, as_it_is if rows is None else rows.shown)

    def _read_row(self, replica: ReplicaId) -> ReadRow:
        rows = self._schema_rows_of(replica.store)
        if rows is None:
            return decode_row
        is_versioned = self._catalog.definition(replica.store).kind is ServedKind.VERSIONED
        return rows.read_version if is_versioned else rows.read_row

    def _shown(self, store: str, value: bytes) -> bytes:
        rows = self._schema_rows_of(store)
        return value if rows is None else rows.shown(value)

    def _schema_rows_of(self, store: str) -> SchemaRows | None:
        return self._schema_rows if self._catalog.definition(store).by_schema else None


def schema_rows(settings: NodeSettings, clock: Clock) -> SchemaRows | None:
    """The reader of rows by schemas, which begins to fetch those of its stores; None if no store has such rows.

    Raises:
        ConfigurationError: no registry is set, its file can't work, or the packages for it are missing.
    """
    topics = [definition.topic for definition in settings.definitions.values() if definition.by_schema]
    if not topics:
        return None
    registry = registry_of(settings.kafka_properties)
    registry.connect()
    # Imported here: the libraries of the formats are an extra.
    from storekeeper.node.replicas.schema_rows import SchemaRows  # noqa: PLC0415

    rows = SchemaRows(registry, clock)
    rows.prefetch(topics)
    return rows


_SWITCH_INTERVAL_S = 0.001
_LOGIN_S = 5.0
"""How long a starting node waits to be refused by Kafka. Without an answer it goes on: it waits for brokers anyway."""


def run_node(name: str, overrides: Mapping[str, object]) -> None:
    """Runs a node until TERM or INT.

    Raises:
        ConfigurationError: the settings can't work; Kafka refuses the login; or another node of this name was started
            later.
        OSError: the port is taken.
    """
    configure_log()
    settings = load_node_settings(overrides)
    settings.make_run_dir()
    if settings.kafka_properties is not None:
        check_login(settings.kafka, _LOGIN_S)
    node = Node(checked_name(name), settings, SystemClock())
    # A request waits this long for a thread that applies rows; Python's 5 ms would show in every 99th percentile.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(node.run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop where it is installed: it answers 1.5 times as many queries as asyncio's own loop."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
