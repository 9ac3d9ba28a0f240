"""Rows whose values are by schemas of a registry, as queries get them: as JSON.

A reader may be an event loop, so it never waits for the registry. A schema that a node doesn't know yet is fetched in a
thread, and the reader is to ask again. A node fetches the schemas of its stores' subjects when it starts, so this
happens only for a schema that is newer.

An instance of a registry may lag behind another one. So that there is no schema of an id counts only when the registry
has said it several times, seconds apart; it is asked again later, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog

from storekeeper.clock import Clock
from storekeeper.errors import RetriableError, SerializationError, StateError
from storekeeper.schemas.as_json import JsonView
from storekeeper.schemas.bound import value_subject
from storekeeper.schemas.errors import UnknownSchemaError
from storekeeper.schemas.framing import framed
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.stores.row import ReplicaRow, decode_row
from storekeeper.stores.versioned import value_of_version, version_of

log = structlog.get_logger(__name__)

_ASK_AGAIN_S = (1, 2, 4, 60)
"""When a schema that isn't there is asked for again, by how often the registry has said that there is none."""
_BELIEVED = len(_ASK_AGAIN_S) - 1


class SchemaPendingError(RetriableError):
    """The schema of a value is not known to this node yet. It is being fetched; ask again."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for a schema. `refusals`: how often the registry had said before it that there is none."""

    answer: Future[None]
    asked_at_s: float
    refusals: int


class SchemaRows:
    """Reads rows as JSON. Thread-safe."""

    def __init__(self, registry: SchemaRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._view = JsonView(registry)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")
        self._requests: dict[int, _Request] = {}

    def read_row(self, stored: bytes) -> ReplicaRow:
        """A stored row with its value as JSON; raises as `shown`, and as `decode_row`."""
        row = decode_row(stored)
        return ReplicaRow(row.schema_version, row.timestamp_ms, self.shown(row.value))

    def read_version(self, stored: bytes) -> ReplicaRow:
        """The same for a stored row of a versioned store."""
        row = decode_row(stored)
        value = value_of_version(row.value)
        return row if value is None else replace(row, value=version_of(self.shown(value)))

    def shown(self, value: bytes) -> bytes:
        """A value as JSON; unchanged if it is not by an existing schema.

        Raises:
            SchemaPendingError: its schema isn't known yet.
        """
        try:
            schema_id, _ = framed(value)
            return self._view.json_of(value) if self._is_at_hand(schema_id) else value
        except SerializationError:
            return value

    def prefetch(self, topics: Iterable[str]) -> None:
        """Starts to fetch the schemas of the topics' subjects."""
        for topic in topics:
            self._thread.submit(self._prefetch, value_subject(topic))

    def close(self) -> None:
        """Ends the thread once it has an answer, or none."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _is_at_hand(self, schema_id: int) -> bool:
        """Whether there is a schema of this id that can be used. Raises SchemaPendingError while that isn't known."""
        request = self._requests.get(schema_id) or self._ask(schema_id, 0)
        answered = request.answer.done()
        error = request.answer.exception() if answered else None
        if answered and error is None:
            return True
        unknown = isinstance(error, UnknownSchemaError)
        if isinstance(error, SerializationError) and not unknown:
            return False
        refusals = min(request.refusals + unknown, _BELIEVED)
        if answered and self._clock.monotonic_s() >= request.asked_at_s + _ASK_AGAIN_S[refusals]:
            self._ask(schema_id, refusals)
        if refusals == _BELIEVED:
            return False
        msg = f"this node doesn't know schema {schema_id} yet ({error or 'it is being fetched'}): ask again"
        raise SchemaPendingError(msg) from error

    def _ask(self, schema_id: int, refusals: int) -> _Request:
        answer = self._thread.submit(self._view.prepare, schema_id)
        self._requests[schema_id] = _Request(answer, self._clock.monotonic_s(), refusals)
        return self._requests[schema_id]

    def _prefetch(self, subject: str) -> None:
        try:
            for schema_id in self._registry.ids(subject):
                done: Future[None] = Future()
                self._view.prepare(schema_id)
                done.set_result(None)
                self._requests[schema_id] = _Request(done, self._clock.monotonic_s(), 0)
        except StateError as error:
            log.warning("schemas_not_fetched", subject=subject, error=str(error))
