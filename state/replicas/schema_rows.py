"""Rows whose values are by schemas of a registry, as queries get them: as JSON.

A reader may be an event loop, so it never waits for the registry. A schema that a node doesn't know yet is fetched in a
thread, and the reader is to ask again. A node fetches the schemas of its stores' subjects when it starts, so this
happens only for a schema that is newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import structlog

from state.errors import RetriableError, SerializationError, StateError
from state.schemas.as_json import JsonView
from state.schemas.bound import value_subject
from state.schemas.framing import framed
from state.schemas.registry import SchemaRegistry
from state.stores.row import ReplicaRow, decode_row

log = structlog.get_logger(__name__)


class SchemaPendingError(RetriableError):
    """The schema of a value is not known to this node yet. It is being fetched; ask again."""


class SchemaRows:
    """Reads rows as JSON. Thread-safe."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._view = JsonView(registry)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")
        self._fetched: dict[int, Future[None]] = {}

    def read_row(self, stored: bytes) -> ReplicaRow:
        """A stored row with its value as JSON; raises as `shown`, and as `decode_row`."""
        row = decode_row(stored)
        return ReplicaRow(row.schema_version, row.timestamp_ms, self.shown(row.value))

    def shown(self, value: bytes) -> bytes:
        """A value as JSON; as it is where it can't be shown so, because it is by no schema that there is.

        Raises:
            SchemaPendingError: its schema isn't known yet.
        """
        try:
            schema_id, _ = framed(value)
            self._require(schema_id)
            return self._view.json_of(value)
        except SerializationError:
            return value

    def prefetch(self, topics: Iterable[str]) -> None:
        """Starts to fetch the schemas of the topics' subjects."""
        for topic in topics:
            self._thread.submit(self._prefetch, value_subject(topic))

    def close(self) -> None:
        """Ends the thread once it has an answer, or none."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _require(self, schema_id: int) -> None:
        """Raises unless the schema is at hand, or there is none of this id."""
        fetched = self._fetched.get(schema_id)
        if fetched is None:
            fetched = self._fetched[schema_id] = self._thread.submit(self._view.prepare, schema_id)
        if not fetched.done():
            msg = f"this node doesn't know schema {schema_id} yet: ask again"
            raise SchemaPendingError(msg)
        error = fetched.exception()
        if error is not None:
            if not isinstance(error, SerializationError):
                self._fetched.pop(schema_id, None)
                msg = f"this node can't show the value: {error}"
                raise SchemaPendingError(msg) from error
            raise error

    def _prefetch(self, subject: str) -> None:
        try:
            for schema_id in self._registry.ids(subject):
                done: Future[None] = Future()
                self._view.prepare(schema_id)
                done.set_result(None)
                self._fetched[schema_id] = done
        except StateError as error:
            log.warning("schemas_not_fetched", subject=subject, error=str(error))
