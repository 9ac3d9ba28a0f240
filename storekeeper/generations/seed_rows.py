"""Converts the rows of a seed and writes them to the partitions of their tasks. Run by Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError

from storekeeper.apps.errors import BrokerRefusedError
from storekeeper.engine.errors import task_errors
from storekeeper.engine.partitioning import partitions_of
from storekeeper.engine.rows import cells
from storekeeper.generations.migration import Chain
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.serdes.keys.sessions import decode_session_row_key
from storekeeper.serdes.keys.versions import decode_version_row_key
from storekeeper.serdes.keys.windows import decode_window_row_key
from storekeeper.stores.record_context import Header
from storekeeper.topology.store import StoreKind

ROWS = pa.schema(
    [
        ("store", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp_ms", pa.int64()),
        ("problem", pa.string()),
    ]
)
ROWS_DDL = "store string, partition int, key binary, value binary, timestamp_ms bigint, problem string"
COUNT_DDL = "written bigint"

_KEYS: Mapping[StoreKind, Callable[[bytes], bytes]] = {
    StoreKind.WINDOW: lambda row_key: decode_window_row_key(row_key)[0],
    StoreKind.SESSION: lambda row_key: decode_session_row_key(row_key)[0],
    StoreKind.VERSIONED: lambda row_key: decode_version_row_key(row_key)[0],
}


@dataclass(frozen=True, slots=True)
class Placement:
    """The partitions in which a generation's tasks expect a store's rows.

    Attributes:
        kind: the store's kind, which sets the format of its row keys.
        partitions: of its new changelog, if rows may move to other partitions; else None.
    """

    kind: StoreKind
    partitions: int | None = None

    def of(self, keys: Sequence[bytes], before: Sequence[int]) -> Sequence[int]:
        """The partitions of rows, by their keys and the partitions that they come from."""
        if self.partitions is None:
            return before
        inner = _KEYS.get(self.kind)
        found: list[int] = partitions_of(list(map(inner, keys)) if inner else keys, self.partitions).tolist()
        return found


def converted_rows(
    batches: Iterator[pa.RecordBatch], *, store: str, chain: Chain, placement: Placement
) -> Iterator[pa.RecordBatch]:
    """From rows `_partition`, `_key`, `_value`, `_timestamp_ms` to those of `ROWS`.

    A row that can't be converted is replaced by its problem, which has no data of the row.
    """
    names = ("_partition", "_key", "_value", "_timestamp_ms")
    for batch in batches:
        made: list[tuple[int, bytes, bytes, int]] = []
        problems: list[str] = []
        for partition, key, value, timestamp_ms in zip(*(cells(batch.column(name)) for name in names), strict=True):
            try:
                made += [(partition, *record, timestamp_ms) for record in chain.convert(key, value)]
            except Exception as error:  # an app's function may raise anything, and quote the row
                problems.append(type(error).__name__)
        if made:
            partitions, keys, values, times = zip(*made, strict=True)
            yield _rows([store] * len(made), placement.of(keys, partitions), keys, values, times, [None] * len(made))
        if problems:
            none = [None] * len(problems)
            yield _rows([store] * len(problems), none, none, none, none, problems)


def _rows(*columns: Sequence[object]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.record_batch(arrays, schema=ROWS)


@dataclass(frozen=True, slots=True)
class SeedTarget:
    """Where and how rows of a seed are written.

    Attributes:
        kafka: the Kafka.
        producer: the client's settings, in its own names.
        topics: changelog by store.
        headers: of the rows of each store.
        timeout_s: how long the final flush may take.
    """

    kafka: Kafka
    producer: Mapping[str, str | int]
    topics: Mapping[str, str]
    headers: Mapping[str, list[Header]]
    timeout_s: float


@task_errors
def written_rows(batches: Iterator[pa.RecordBatch], *, target: SeedTarget) -> Iterator[pa.RecordBatch]:
    """Writes rows of `ROWS` to their changelogs; yields how many.

    Nobody reads them before the seed is complete, and an incomplete seed is made again. So no transaction is needed.

    Raises:
        BrokerRefusedError: the broker did not take them all.
    """
    failed: list[KafkaError] = []
    producer = new_producer(target.kafka, {
        **target.producer,
        "on_delivery": lambda error, _: failed.append(error) if error is not None else None,
        "delivery.report.only.error": True,
    })  # fmt: skip
    written = 0
    for batch in batches:
        for store, partition, key, value, timestamp_ms, _ in zip(*map(cells, batch.columns), strict=True):
            record = (target.topics[store], value, key, partition)
            while True:
                try:
                    producer.produce(*record, timestamp=timestamp_ms, headers=target.headers[store])
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        written += batch.num_rows
    left = producer.flush(target.timeout_s)
    if failed or left:
        reason = failed[0].str() if failed else f"{left} rows were not taken within {target.timeout_s:.0f} s"
        msg = f"the seed can't be written: {reason}"
        raise BrokerRefusedError(msg)
    yield pa.record_batch([pa.array([written])], names=["written"])
