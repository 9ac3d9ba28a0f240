"""Point queries: the row of one key, from this node's replica where it can, from another node's where it can't."""

from __future__ import annotations

import time

import structlog

from state.changelog.restore import Role
from state.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StateError,
    StoreMigratedError,
    StoreUnavailableError,
)
from state.metrics.latency import LatencyRecorder
from state.query.answer import JSON, OFFSET, OFFSET_LAG, PARTITION, ROLE, SERVED_BY, Answer
from state.query.catalog import Catalog
from state.query.json_rows import row_json
from state.query.problems import KeyTooLongError, UnknownKeyError, problem_of
from state.query.raw_path import key_segments
from state.query.router import NoHolderAnsweredError, Router
from state.replicas.replica import Replica

log = structlog.get_logger(__name__)


class PointQueries:
    """Answers for one key at a time."""

    def __init__(self, catalog: Catalog, router: Router, *, max_key_bytes: int) -> None:
        self._catalog = catalog
        self._router = router
        self._max_key_bytes = max_key_bytes
        self._origin = {role: (JSON, (SERVED_BY, catalog.node.encode()), (ROLE, role.value.encode())) for role in Role}
        self.latency: dict[str, LatencyRecorder] = {store: LatencyRecorder() for store in catalog.topics}

    async def answer(self, store: str, key: bytes, *, forwarded: bool) -> Answer:
        """The answer for a key; errors come as problems, none is raised.

        Args:
            store: the store's name.
            key: the row's key.
            forwarded: the request comes from another node, so it is not sent on.
        """
        try:
            partition = self._partition(store, key)
            replica = self._catalog.replica(store, partition)
            if replica is not None and replica.serving:
                try:
                    return self._local(replica, store, key)
                except InvalidStateStoreError:
                    # Closed or damaged under the query: another replica may know.
                    if forwarded:
                        raise
            if forwarded:
                self._refuse(replica, store, partition)
            return await self._remote(replica, store, partition, key)
        except Exception as error:
            if not isinstance(error, StateError):
                log.exception("point_query_failed", store=store)
            return Answer.problem(problem_of(error), (SERVED_BY, self._catalog.node.encode()))

    def _partition(self, store: str, key: bytes) -> int:
        if not key:
            raise InvalidArgumentError("the key is empty: put it behind the store's name, percent-encoded")
        if len(key) > self._max_key_bytes:
            msg = f"the key has {len(key)} bytes, over the limit of {self._max_key_bytes}"
            raise KeyTooLongError(msg)
        return self._catalog.partition(store, key)

    def _local(self, replica: Replica, store: str, key: bytes) -> Answer:
        began_ns = time.perf_counter_ns()
        row = replica.get(key)
        self.latency[store].record(time.perf_counter_ns() - began_ns)
        headers = (
            *self._origin[replica.role],
            (PARTITION, b"%d" % replica.replica_id.partition),
            (OFFSET, b"%d" % (replica.offset or 0)),
            (OFFSET_LAG, b"%d" % (replica.offset_lag or 0)),
        )
        if row is None:
            msg = f"store {store} has no key {key[:200].decode(errors='replace')!r}"
            return Answer.problem(problem_of(UnknownKeyError(msg)), *headers[1:])
        return Answer(200, headers, row_json(key, row.value))

    def _refuse(self, replica: Replica | None, store: str, partition: int) -> None:
        if replica is None:
            msg = f"node {self._catalog.node} does not hold partition {partition} of {store}"
            raise StoreMigratedError(msg)
        replica.get(b"\0")
        msg = f"partition {partition} of {store} has just become ready on node {self._catalog.node}: ask again"
        raise StoreUnavailableError(msg)

    async def _remote(self, replica: Replica | None, store: str, partition: int, key: bytes) -> Answer:
        (segment,), key_format = key_segments(key)
        try:
            return await self._router.forward(store, partition, f"/state/keyvalue/{store}/{segment}?{key_format}")
        except NoHolderAnsweredError as error:
            if replica is not None and not error.asked:
                self._refuse(replica, store, partition)
            raise
