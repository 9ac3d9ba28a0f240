"""Values by schemas in every form of answer. A real registry and node: tests/integration/test_schema_values.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import Schema

from harness.waiting import eventually
from storekeeper.clock import SystemClock
from storekeeper.node.query.reads.stream_format import NDJSON
from storekeeper.node.replicas.schema_rows import SchemaRows
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.registry import MemoryRegistry
from tests.node.query.cluster import Cluster
from tests.schemas.samples import AVRO, Purchase

SHOWN = b'{"card":"7","amount":1.2500}'
ROW = b'{"key":"a","value":%b}' % SHOWN


class SlowRegistry(MemoryRegistry):
    """Answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def schema(self, schema_id: int) -> Schema:
        assert self.may_answer.wait(30)
        return super().schema(schema_id)


@pytest.fixture
def registry() -> Iterator[SlowRegistry]:
    made = SlowRegistry()
    yield made
    made.may_answer.set()


def test_every_answer_shows_json_once_the_schema_is_known(registry: SlowRegistry) -> None:
    rows = SchemaRows(registry, SystemClock())
    value = bound_to(AvroSerde(AVRO, Purchase), "purchases", registry).serialize(Purchase("7", Decimal("1.2500")))

    async def scenario() -> None:
        cluster = Cluster(nodes=("a",), partitions=1)
        for replica in cluster.nodes["a"].replicas.values():
            replica.read_row = rows.read_row
        cluster.write("rewards", b"a", value)
        for path in ("keyvalue/rewards/a", "keyvalues/rewards/all", "keyvalues/rewards?key=a"):
            pending = await cluster.get("a", f"/state/{path}")
            assert (pending.status_code, pending.headers.get("retry-after")) == (503, "1"), path
            assert "schema 1" in pending.json()["detail"]
        registry.may_answer.set()
        await asyncio.to_thread(eventually, rows._requests[1].answer.done, 30, "the schema is there")
        assert (await cluster.get("a", "/state/keyvalue/rewards/a")).content == ROW
        assert (await cluster.get("a", "/state/keyvalue/rewards/a")).content == ROW  # from the cache
        assert (await cluster.get("a", "/state/keyvalues/rewards/all")).content == b"[%b]" % ROW
        several = await cluster.get("a", "/state/keyvalues/rewards?key=a")
        assert several.content == b'{"rows":[%b],"complete":true}' % ROW
        lines = await cluster.get("a", "/state/keyvalues/rewards/all", accept=NDJSON)
        assert lines.content.splitlines()[0] == ROW
        replica = cluster.nodes["a"].replicas[ReplicaId("rewards", 0)]
        with replica.scan_at_offset() as (_, stored):
            assert [row.value for _, row in stored] == [value]  # what copies are compared by

    try:
        asyncio.run(scenario())
    finally:
        registry.may_answer.set()
        rows.close()
