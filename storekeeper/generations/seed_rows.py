"""Converts the rows of a seed and writes them to the partitions of their tasks. Run by Spark's workers.

The progress that a generation's tasks begin with, besides rows: stream times, what was emitted, timers.

It is read from the markers of the live generation's tasks. The new generation's tasks read it from their own markers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
from confluent_kafka import KafkaError

from storekeeper.apps.errors import BrokerRefusedError
from storekeeper.engine.errors import task_errors
from storekeeper.engine.markers import markers_after
from storekeeper.engine.partitioning import partitions_of
from storekeeper.generations.errors import GenerationRefusedError, NotesGoneError
from storekeeper.generations.migration import Chain
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import markers_topic
from storekeeper.serdes.keys.row_keys import LAYOUTS, key_of_row
from storekeeper.stores.record_context import Header
from storekeeper.topology.layout import Layout
from storekeeper.topology.operators.repartition import RepartitionSource
from storekeeper.topology.store import StoreKind
from storekeeper.topology.sub_topology import SubTopology

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
MISPLACED = "not in the partition of its key"
"""The problem of a row that can't move by its key: its task doesn't find it by that now, and wouldn't then."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The partitions in which a generation's tasks expect a store's rows.

    Attributes:
        kind: the store's kind, which sets the format of its row keys.
        partitions: of its new changelog, if rows may move to other partitions; else None.
        before: of its changelog until now, if rows keep their keys and move for their number alone; else None.
    """

    kind: StoreKind
    partitions: int | None = None
    before: int | None = None

    def of(self, keys: Sequence[bytes], before: Sequence[int]) -> Sequence[int]:
        """The partitions of rows, by their keys and the partitions that they come from."""
        if self.partitions is None:
            return before
        return self._by_key(keys, self.partitions)

    def misplaced(self, keys: Sequence[bytes], at: Sequence[int]) -> Sequence[bool]:
        """Whether rows can't move, as they are not in the partition of their key now, by keys and partitions.

        A row whose key no store of the kind makes is nobody's, wherever it is.
        """
        if self.before is None:
            return [False] * len(keys)
        found = zip(self._by_key(keys, self.before), at, keys, strict=True)
        return [of_key != place and key_of_row(self.kind, key) is not None for of_key, place, key in found]

    def _by_key(self, keys: Sequence[bytes], partitions: int) -> list[int]:
        inner = list(map(self._key, keys)) if self.kind in LAYOUTS else keys
        numbers: list[int] = partitions_of(inner, partitions).tolist()
        return numbers

    def _key(self, row_key: bytes) -> bytes:
        """A row whose key no store of the kind makes, such as a foreign record's, is moved by the whole of it."""
        key = key_of_row(self.kind, row_key)
        return row_key if key is None else key


def converted_rows(
    batches: Iterator[pa.RecordBatch], *, store: str, chain: Chain, placement: Placement
) -> Iterator[pa.RecordBatch]:
    """From rows `_partition`, `_key`, `_value`, `_timestamp_ms` to those of `ROWS`.

    A row that can't be converted is replaced by its problem, which has no data of the row.
    """
    names = ("_partition", "_key", "_value", "_timestamp_ms")
    for batch in batches:
        rows: list[tuple[int, bytes, bytes, int]] = []
        problems: list[str] = []
        columns = [_cells(batch.column(name)) for name in names]
        misplaced = placement.misplaced(columns[1], columns[0])
        for partition, key, value, timestamp_ms, is_misplaced in zip(*columns, misplaced, strict=True):
            if is_misplaced:
                problems.append(MISPLACED)
                continue
            try:
                rows += [(partition, *record, timestamp_ms) for record in chain.convert(key, value)]
            except Exception as error:  # an app's function may raise anything, and quote the row
                problems.append(type(error).__name__)
        if rows:
            partitions, keys, values, times = zip(*rows, strict=True)
            yield _rows([store] * len(rows), placement.of(keys, partitions), keys, values, times, [None] * len(rows))
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
    """As `write_rows`, for Spark: yields how many."""
    yield pa.record_batch([pa.array([write_rows(batches, target)])], names=["written"])


def write_rows(batches: Iterable[pa.RecordBatch], target: SeedTarget) -> int:
    """Writes rows of `ROWS` to their changelogs; returns how many.

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
        for store, partition, key, value, timestamp_ms, _ in zip(*map(_cells, batch.columns), strict=True):
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
        raise BrokerRefusedError(f"the seed can't be written: {reason}")
    return written


Progress = Mapping[int, bytes]
"""Progress of a sub-topology's tasks, by partition; without the tasks that have not run yet."""


def live_progress(
    kafka: Kafka, app: str, generation: int, slots: Iterable[str], *, query_id: str, batch_id: int
) -> dict[str, Progress]:
    """The progress of a generation's tasks after a batch, by slot name.

    Raises:
        NotesGoneError: a task has only markers of later batches.
    """
    progress: dict[str, Progress] = {}
    for slot in slots:
        newest = markers_after(kafka, markers_topic(app, generation, slot), query_id, batch_id)
        if newest is None:
            raise NotesGoneError(f"the progress of {slot} after batch {batch_id} is not there any more")
        progress[slot] = {partition: marker.progress for partition, marker in newest.items()}
    return progress


def peers_of(sub: SubTopology, live: Layout) -> list[SubTopology]:
    """The live sub-topologies that a new one replaces: those that share a store, or else an input topic.

    There are several if their stores meet in the same tasks now. Repartition topics don't count: their names differ
    between generations.
    """
    stores, topics = {spec.name for spec in sub.stores}, _plain_topics(sub)
    others = [other for other in live.topology.sub_topologies if not other.is_global]
    same = [other for other in others if stores & {spec.name for spec in other.stores}]
    return same or [other for other in others if topics & _plain_topics(other)]


def joined(befores: Sequence[Progress]) -> Progress:
    """The progress of tasks that take over from those of several sub-topologies, partition by partition.

    What two of them have under one name is as far as the further one.
    """
    if len(befores) == 1:
        return befores[0]
    by_partition: dict[int, dict[str, dict[str, int]]] = {}
    for partition, progress in chain.from_iterable(before.items() for before in befores):
        found = by_partition.setdefault(partition, {})
        for what, places in orjson.loads(progress).items():
            known = found.setdefault(what, {})
            known |= {name: max(place, known.get(name, place)) for name, place in places.items()}
    return {partition: orjson.dumps(found) for partition, found in by_partition.items()}


def progress_of(before: Progress, partitions: int, *, moved: bool) -> Progress:
    """The progress of a new sub-topology's tasks.

    Raises:
        GenerationRefusedError: keys move to other tasks, and the progress can't be merged.
    """
    if not moved:
        return before
    times: dict[str, int] = {}
    for progress in map(orjson.loads, before.values()):
        _check_joinable(progress)
        for name, time_ms in progress.get("times", {}).items():
            times[name] = max(time_ms, times.get(name, time_ms))
    joined = orjson.dumps({"times": times})
    return dict.fromkeys(range(partitions), joined) if before else {}


def _check_joinable(progress: Mapping[str, Any]) -> None:
    if progress.get("emitted") or progress.get("timers"):
        raise GenerationRefusedError(
            "keys can't move to other tasks in this topology: it emits when windows close, or has timers, and each "
            "task is at another place. Leave partitions and keys as they are"
        )


def _plain_topics(sub: SubTopology) -> set[str]:
    return {source.topic for source in sub.sources if not isinstance(source, RepartitionSource)}


def _cells(column: pa.Array) -> list[Any]:
    """A column's values as Python objects, None for null. Four times as fast as `to_pylist` for texts and bytes."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type) or not column.null_count:
        listed: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return listed
    return column.to_pylist()
