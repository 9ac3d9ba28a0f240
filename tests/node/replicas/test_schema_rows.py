from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import Schema

from harness.waiting import eventually
from storekeeper.clock import ManualClock
from storekeeper.node.replicas.schema_rows import SchemaPendingError, SchemaRows
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.errors import SchemaRegistryUnavailableError, UnknownSchemaError
from storekeeper.schemas.framing import framed
from storekeeper.schemas.registry import MemoryRegistry
from storekeeper.stores.row import encode_row
from storekeeper.stores.versioned import DELETED_VERSION, version_of
from tests.schemas.samples import AVRO, Purchase


class SlowRegistry(MemoryRegistry):
    """Answers once it may, or fails a given number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.failures = 0
        self.lacks: set[int] = set()
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> Schema:
        assert self.may_answer.wait(30)
        self.asked.append(schema_id)
        if schema_id in self.lacks:
            msg = f"no schema {schema_id}"
            raise UnknownSchemaError(msg)
        if self.failures:
            self.failures -= 1
            raise SchemaRegistryUnavailableError("away")
        return super().schema(schema_id)


@pytest.fixture
def registry() -> SlowRegistry:
    return SlowRegistry()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def rows(registry: SlowRegistry, clock: ManualClock) -> Iterator[SchemaRows]:
    made = SchemaRows(registry, clock)
    yield made
    registry.may_answer.set()
    made.close()


def purchase(registry: SlowRegistry) -> bytes:
    return bound_to(AvroSerde(AVRO, Purchase), "purchases", registry).serialize(Purchase("7", Decimal(1)))


def shown(rows: SchemaRows, value: bytes) -> bytes | None:
    try:
        return rows.shown(value)
    except SchemaPendingError:
        return None


def test_a_reader_never_waits_for_the_registry(registry: SlowRegistry, rows: SchemaRows) -> None:
    value = purchase(registry)
    for _ in range(2):
        with pytest.raises(SchemaPendingError, match="doesn't know schema 1 yet"):
            rows.shown(value)
    registry.may_answer.set()
    assert eventually(lambda: shown(rows, value), 30, "the schema is there") == b'{"card":"7","amount":1.0000}'
    row = rows.read_row(encode_row(value, schema_version=3, timestamp_ms=5))
    assert (row.schema_version, row.timestamp_ms, row.value) == (3, 5, b'{"card":"7","amount":1.0000}')
    for stored, seen in ((version_of(value), version_of(row.value)), (DELETED_VERSION, DELETED_VERSION)):
        assert rows.read_version(encode_row(stored, schema_version=3, timestamp_ms=5)).value == seen


def answered(rows: SchemaRows, value: bytes) -> bytes | None:
    """What is shown once the registry has answered."""
    try:
        return rows.shown(value)
    except SchemaPendingError:
        eventually(rows._requests[framed(value)[0]].answer.done, 30, "the registry has answered")
        return shown(rows, value)


def test_a_registry_that_was_away_is_asked_again(registry: SlowRegistry, rows: SchemaRows, clock: ManualClock) -> None:
    value, registry.failures = purchase(registry), 2
    registry.may_answer.set()
    for _ in range(2):
        assert answered(rows, value) is None
        clock.advance(1000)
    assert answered(rows, value) == b'{"card":"7","amount":1.0000}'


def test_a_schema_that_an_instance_of_the_registry_lacks_for_a_moment_is_waited_for(
    registry: SlowRegistry, rows: SchemaRows, clock: ManualClock
) -> None:
    value = purchase(registry)
    registry.lacks = {1}
    registry.may_answer.set()
    for _ in range(3):
        assert answered(rows, value) is None
    assert registry.asked.count(1) == 1, "not at each read"
    clock.advance(2000)
    assert answered(rows, value) is None
    registry.lacks = set()
    clock.advance(4000)
    assert answered(rows, value) == b'{"card":"7","amount":1.0000}'


def test_a_schema_that_the_registry_lacks_is_asked_for_again(
    registry: SlowRegistry, rows: SchemaRows, clock: ManualClock
) -> None:
    value = purchase(registry)
    registry.lacks = {1}
    registry.may_answer.set()
    for pause_s in (2, 4):
        assert answered(rows, value) is None
        clock.advance(pause_s * 1000)
    assert answered(rows, value) == value
    registry.lacks = set()
    registry.may_answer.clear()
    clock.advance(60_000)
    assert shown(rows, value) == shown(rows, value) == value, "nobody waits for the next answer"
    registry.may_answer.set()
    eventually(lambda: shown(rows, value) == b'{"card":"7","amount":1.0000}', 30, "the schema is there")


def test_what_is_by_no_schema_is_shown_as_it_is(registry: SlowRegistry, rows: SchemaRows) -> None:
    registry.may_answer.set()
    assert rows.shown(b"{}") == b"{}"
    value = purchase(registry)
    assert eventually(lambda: shown(rows, value), 30, "the schema is there") != value
    assert rows.shown(value[:-1]) == value[:-1]


def test_the_schemas_of_a_store_are_there_before_the_first_query(registry: SlowRegistry, rows: SchemaRows) -> None:
    value = purchase(registry)
    registry.may_answer.set()
    rows.prefetch(["purchases"])
    eventually(lambda: 1 in rows._requests, 30, "the schema is fetched")
    assert rows.shown(value) == b'{"card":"7","amount":1.0000}'
