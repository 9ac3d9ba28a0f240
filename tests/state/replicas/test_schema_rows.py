from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import Schema

from harness.waiting import eventually
from state.replicas.schema_rows import SchemaPendingError, SchemaRows
from state.schemas.avro import AvroSerde
from state.schemas.bound import bound_to
from state.schemas.errors import SchemaRegistryUnavailableError
from state.schemas.registry import MemoryRegistry
from state.stores.row import encode_row
from tests.state.schemas.samples import AVRO, Purchase


class SlowRegistry(MemoryRegistry):
    """Answers once it may, or fails a given number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.failures = 0

    def schema(self, schema_id: int) -> Schema:
        assert self.may_answer.wait(30)
        if self.failures:
            self.failures -= 1
            raise SchemaRegistryUnavailableError("away")
        return super().schema(schema_id)


@pytest.fixture
def registry() -> SlowRegistry:
    return SlowRegistry()


@pytest.fixture
def rows(registry: SlowRegistry) -> Iterator[SchemaRows]:
    made = SchemaRows(registry)
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


def test_a_registry_that_was_away_is_asked_again(registry: SlowRegistry, rows: SchemaRows) -> None:
    value, registry.failures = purchase(registry), 2
    registry.may_answer.set()
    assert eventually(lambda: shown(rows, value), 30, "the schema is there")


def test_what_is_by_no_schema_is_shown_as_it_is(registry: SlowRegistry, rows: SchemaRows) -> None:
    registry.may_answer.set()
    assert rows.shown(b"{}") == b"{}"
    unknown = b"\0\0\0\0\x63x"
    assert eventually(lambda: shown(rows, unknown), 30, "there is no such schema") == unknown
    value = purchase(registry)
    assert eventually(lambda: shown(rows, value), 30, "the schema is there") != value
    assert rows.shown(value[:-1]) == value[:-1]


def test_the_schemas_of_a_store_are_there_before_the_first_query(registry: SlowRegistry, rows: SchemaRows) -> None:
    value = purchase(registry)
    registry.may_answer.set()
    rows.prefetch(["purchases"])
    eventually(lambda: 1 in rows._fetched, 30, "the schema is fetched")
    assert rows.shown(value) == b'{"card":"7","amount":1.0000}'
