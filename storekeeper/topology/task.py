"""One task: one sub-topology and one partition.

The engine builds a task, and for each batch: `process`, `advance`, `end_batch`; then it writes outputs, changes, dead
letters and progress in one transaction; then it calls `apply`. It may call `process` several times in a batch, and
write the outputs so far with `take_outputs` after each. A task whose batch is given up is discarded: nothing has
reached its stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson

from storekeeper.errors import InvalidTimestampError, NullValueError, SerializationError
from storekeeper.serdes.struct import bare_deserialize
from storekeeper.stores.bytes_store import NO_METADATA
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.topology.dropped_records import DroppedRecords
from storekeeper.topology.failures import OnError, note
from storekeeper.topology.functions import Push
from storekeeper.topology.guards import UNGUARDED, Failure, Guards, letter_of
from storekeeper.topology.operators.source import Source
from storekeeper.topology.records import Batch, DeadLetter, OriginOf, Outputs, RecordFields
from storekeeper.topology.times import LATEST_MS, StreamTime, TimeKind, epoch_ms, out_of_range
from storekeeper.topology.wiring import Wiring

if TYPE_CHECKING:
    from storekeeper.topology.sub_topology import SubTopology

_NULL = "its value is null, and the type of the stream has no null: declare the values as `V | None` to take it"
_TOPIC = itemgetter(0)


class Task:
    """A running sub-topology. Not thread-safe."""

    def __init__(
        self,
        sub_topology: SubTopology,
        partition: int,
        supplier: StoreSupplier,
        *,
        progress: bytes = b"{}",
        global_tables: Mapping[str, Callable[[Any], Any]] | None = None,
        on_error: OnError = OnError.DEAD_LETTER,
        latest_ms: int = LATEST_MS,
        guards: Guards = UNGUARDED,
        origin_of: OriginOf = lambda place: place,
    ) -> None:
        """Opens the stores and compiles the operators.

        Args:
            sub_topology: what to run.
            partition: of all its topics.
            supplier: opens the backend of each store for this partition.
            progress: that of the last committed batch.
            global_tables: by the name of a global table's store, the function that looks a row up.
            on_error: what becomes of a record that `timestamps=` or `check=` fail on, unless their operator has a
                policy of its own.
            latest_ms: the latest time that a record may have.
            guards: what stands between operators and the functions of the user.
            origin_of: finds where a record comes from.
        """
        self.sub_topology = sub_topology
        self.partition = partition
        self._on_error, self._latest_ms, self._origin_of = on_error, latest_ms, origin_of
        self._wiring = Wiring(
            supplier, orjson.loads(progress), global_tables or {}, partition, guards, origin_of=origin_of
        )
        self._wiring.wire(sub_topology.nodes)
        self._stream_time = self._wiring.stream_time("task")
        self._dead_letters: list[DeadLetter] = []
        self._sources: dict[str, Callable[[Iterable[RecordFields]], None]] = {
            node.topic: self._reader(node) for node in sub_topology.nodes if isinstance(node, Source)
        }

    @property
    def stream_time(self) -> StreamTime:
        """The greatest timestamp that this task has seen."""
        return self._stream_time

    @property
    def dropped(self) -> DroppedRecords:
        """The numbers of records left out since the task was built, by reason."""
        return self._wiring.dropped

    def store(self, name: str) -> Any:
        """A store as of now, with the writes of the batch under way."""
        return self._wiring.typed(name)

    def process(self, records: Iterable[RecordFields]) -> None:
        """Takes records in the order given. Those of several partitions or topics need `record_order.Ordered` before.

        Raises:
            KeyError: a record is of a topic that this task does not read.
        """
        if len(self._sources) == 1:
            [read] = self._sources.values()
            read(records)
            return
        for topic, run in groupby(records, _TOPIC):
            self._sources[topic](run)

    def advance(self, now_ms: int) -> None:
        """Fires the timers that are due by the wall clock."""
        self._wiring.context.timestamp_ms = max(self._stream_time.now_ms, 0)
        self._fire(TimeKind.WALL_CLOCK, now_ms)

    def due_in_ms(self, now_ms: int) -> int | None:
        """How long it is until `advance` fires a timer; None if the task has none by the wall clock."""
        return self._wiring.timers.due_in_ms(now_ms)

    def take_outputs(self) -> Outputs:
        """The records for sink and repartition topics so far. They will not be given again."""
        return self._wiring.take_outputs()

    def end_batch(self) -> Batch:
        """Collects all writes of the batch, without the outputs that were taken before."""
        wiring = self._wiring
        wiring.end_batch()
        outputs = self.take_outputs()
        letters, self._dead_letters = self._dead_letters, []
        changes = [
            change for store in wiring.stores.values() for change in store.changes() if store.spec.options.logging
        ]
        return Batch(outputs, changes, letters, orjson.dumps(wiring.progress()))

    def apply(self, metadata: Callable[[str], Mapping[bytes, bytes | None]] = lambda _: NO_METADATA) -> None:
        """Writes the committed batch's changes to the stores."""
        self._wiring.context.forget_traces()
        for name, store in self._wiring.stores.items():
            store.apply(metadata(name))

    def metadata(self, store: str, key: bytes) -> bytes | None:
        """What `apply` wrote with a store's rows."""
        return self._wiring.stores[store].metadata(key)

    def close(self) -> None:
        """Closes the stores. Writes that were not applied are lost."""
        for store in self._wiring.stores.values():
            store.close()

    def _reader(self, source: Source) -> Callable[[Iterable[RecordFields]], None]:  # noqa: C901 (as `read`)
        push: Push = self._wiring.entry(source)
        decode_key, decode = bare_deserialize(source.key_serde), bare_deserialize(source.value_serde)
        context, time, timers = self._wiring.context, self._stream_time, self._wiring.timers
        refuse, refuses_nulls, own = self._refuse, source.refuses_nulls, source.topic
        check, time_of, latest_ms = source.check, source.timestamps, self._latest_ms

        def read(records: Iterable[RecordFields]) -> None:  # noqa: C901 (one loop, as a call a record would cost)
            now_ms = time.now_ms
            for record in records:
                topic, partition, offset, timestamp_ms, key_bytes, value_bytes, headers = record
                if topic != own:
                    raise KeyError(topic)
                try:
                    key = None if key_bytes is None else decode_key(key_bytes)
                    value = None if value_bytes is None else decode(value_bytes)
                    if check is not None:
                        check(key, value, timestamp_ms)
                    if value is None:
                        if refuses_nulls:
                            raise NullValueError(_NULL)
                    elif time_of is not None:
                        timestamp_ms = epoch_ms(time_of(key, value))
                    if not 0 <= timestamp_ms <= latest_ms:
                        raise out_of_range(timestamp_ms)
                except Exception as error:
                    refuse(record, source, error)
                    continue
                context.topic, context.partition, context.offset = topic, partition, offset
                context.timestamp_ms, context.headers = timestamp_ms, headers
                context.trace = context.trace_in(headers) if headers else context.untraced
                try:
                    push(key, value, timestamp_ms)
                except Exception as error:
                    note(error, self._place_of(record))
                    raise
                if timestamp_ms > now_ms:
                    now_ms = time.now_ms = timestamp_ms
                    if timers.follow_stream_time:
                        self._fire(TimeKind.STREAM_TIME, now_ms)

        return read

    def _fire(self, kind: TimeKind, now_ms: int) -> None:
        # What a timer forwards comes from no record.
        self._wiring.context.come_from_headers(())
        self._wiring.timers.advance(kind, now_ms)

    def _refuse(self, record: RecordFields, source: Source, error: Exception) -> None:
        """Makes a record a dead letter that a serde, `check=`, `timestamps=` or the source itself has refused."""
        error = _unreadable(record, source) or error
        refused = isinstance(error, SerializationError | InvalidTimestampError)
        policy = OnError.DEAD_LETTER if refused else source.on_error or self._on_error
        failure = Failure(error, source.name, policy)
        if not failure.condemns:
            note(error, f"in operator {source.name}")
            note(error, self._place_of(record))
            raise error
        self._dead_letters.append(letter_of(record, failure))

    def _place_of(self, record: RecordFields) -> str:
        topic, partition, offset = self._origin_of(record[:3])
        behind = "" if topic == record[0] else f" behind {record[0]}"
        return f"while {topic}[{partition}]@{offset} was processed{behind}"


def _unreadable(record: RecordFields, source: Source) -> SerializationError | None:
    """Why a record can't be read, if that is what is wrong with it."""
    *_, key, value, _ = record
    try:
        for serde, data in ((source.key_serde, key), (source.value_serde, value)):
            if data is not None:
                serde.deserialize(data)
    except SerializationError as error:
        return error
    return None
