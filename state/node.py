"""A serving node: follows changelogs into local stores and answers queries. `python -m state.node --name a`.

Exit codes: 0 after TERM or INT, 78 when the settings can't work, 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from state.changelog.listener import LoggingRestoreListener
from state.changelog.reader import ChangelogReader, ReaderSettings
from state.clock import Clock, SystemClock
from state.errors import ChangelogError, ConfigurationError
from state.query.app import make_app
from state.query.assignment import Assignment
from state.query.catalog import Catalog
from state.query.cursor import CursorCodec
from state.query.metrics import make_registry
from state.query.peers import Peers
from state.query.point import PointQueries
from state.query.router import Router
from state.query.scans import ScanQueries
from state.query.server import serve
from state.query.services import QueryLimits, QueryServices
from state.replicas.cold_restore import ColdRestoreSettings, WorkerColdRestore
from state.replicas.places import MemoryPlace, ReplicaPlace, RocksDBPlace
from state.replicas.replica_set import ReplicaSet, ReplicaSpec
from state.replicas.states import ReplicaId
from state.security.cluster_secret import load_cluster_secret
from state.settings import EXIT_CONFIGURATION, NodeSettings, load_node_settings
from state.stores.rocksdb_options import bound_process_memory

log = structlog.get_logger(__name__)

_TOPIC_RETRY_S = 1.0


class Node:
    """One node's replicas and queries. `run` serves until told to stop."""

    def __init__(self, name: str, settings: NodeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._port = settings.port_of(name)
        self._secret = load_cluster_secret(settings.cluster_secret_path)
        self._catalog = Catalog(name, settings.peer_addresses, settings.definitions)
        self._reader = ReaderSettings(settings.kafka_bootstrap)
        self._stopping = threading.Event()
        self._replica_set: ReplicaSet | None = None
        self._starter = threading.Thread(target=self._start_replicas, name="starter", daemon=True)

    async def run(self) -> None:
        """Serves until TERM or INT, then closes the stores."""
        settings = self._settings
        peers = Peers(
            self._catalog.node,
            lambda: self._catalog.addresses,
            timeout_ms=settings.forward_timeout_ms,
            clock=self._clock,
        )
        router = Router(self._catalog, peers)
        point = PointQueries(self._catalog, router, max_key_bytes=settings.max_key_bytes)
        services = QueryServices(
            catalog=self._catalog,
            point=point,
            scans=ScanQueries(self._catalog, router, max_scans=settings.max_scans),
            cursors=CursorCodec(self._secret),
            registry=make_registry(self._catalog, point, router),
            limits=QueryLimits(
                max_key_bytes=settings.max_key_bytes,
                max_body_bytes=settings.max_body_bytes,
                max_page_rows=settings.max_page_rows,
                max_page_bytes=settings.max_page_bytes,
            ),
            backend=settings.backend,
            following=self._following,
        )
        self._starter.start()
        try:
            await serve(make_app(services), settings.listen_host, self._port, asyncio.Event())
        finally:
            await peers.close()
            self._close()

    def _start_replicas(self) -> None:
        assignment = self._assignment()
        if assignment is None:
            return
        specs = [
            ReplicaSpec(ReplicaId(store, partition), self._catalog.topic(store), role)
            for store, partition, role in assignment.held_by(self._catalog.node)
        ]
        replicas = ReplicaSet(
            specs,
            place=self._place(),
            reader=self._reader,
            clock=self._clock,
            listener=LoggingRestoreListener(self._clock),
            cold_restore=self._cold_restore(),
        )
        self._replica_set = replicas
        replicas.start()
        self._catalog.complete(assignment, replicas.replicas)

    def _assignment(self) -> Assignment | None:
        """Waits for the broker to describe every changelog topic; None when told to stop meanwhile."""
        reader = ChangelogReader(self._reader)
        partitions: dict[str, int] = {}
        try:
            while not self._stopping.is_set():
                try:
                    partitions = {
                        store: reader.facts(topic).partitions for store, topic in self._catalog.topics.items()
                    }
                except ChangelogError as error:
                    log.warning("node_waits_for_changelogs", error=str(error))
                    self._stopping.wait(_TOPIC_RETRY_S)
                    continue
                return Assignment(tuple(self._catalog.addresses), partitions, self._settings.replicas)
        finally:
            reader.close()
        return None

    def _place(self) -> ReplicaPlace:
        if self._settings.backend == "memory":
            return MemoryPlace(self._clock)
        bound_process_memory(self._settings.memory_mib << 20)
        return RocksDBPlace(self._state_dir, self._clock)

    def _cold_restore(self) -> WorkerColdRestore | None:
        if self._settings.backend == "memory":
            return None
        settings = ColdRestoreSettings(self._settings.cold_restore_records, self._settings.cold_restore_workers)
        return WorkerColdRestore(self._state_dir, self._settings.kafka_bootstrap, settings)

    @property
    def _state_dir(self) -> Path:
        return self._settings.run_dir / "state" / self._catalog.node

    def _following(self) -> bool:
        return self._starter.is_alive() or (self._replica_set is not None and self._replica_set.following)

    def _close(self) -> None:
        self._stopping.set()
        self._starter.join()
        if self._replica_set is not None:
            self._replica_set.close()
        log.info("node_stopped", node=self._catalog.node)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a node until it is told to stop; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="state.node", description="Serve state stores; settings come from STOREKEEPER_*."
    )
    parser.add_argument("--name", required=True, help="this node's name among STOREKEEPER_PEERS")
    name: str = parser.parse_args(arguments).name
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        node = Node(name, load_node_settings(), SystemClock())
    except ConfigurationError as error:
        sys.stderr.write(f"node {name}: {error}\n")
        return EXIT_CONFIGURATION
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(node.run())
    except OSError as error:
        sys.stderr.write(f"node {name}: {error}\n")
        return 1
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop where it is installed: it answers half as many queries again as asyncio's own loop."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    sys.exit(main())
