"""The join of a stream with a table, as of now or as of the record's time, and with a global table.

A join as of the record's time may wait for rows of the table that are late. The records that wait are in a store:

    key:   int64 timestamp, big-endian · the record's key · uint32 number, for records of one key and time
    value: length of the key, 4 bytes · the key · the headers · the value
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.stores.record_context import Header, Origin, RecordContext
from storekeeper.topology.dropped_records import DroppedRecords, DropReason
from storekeeper.topology.forks import Meeting
from storekeeper.topology.functions import Push
from storekeeper.topology.node import GraphNode, TableNode, ancestors, check_one_builder
from storekeeper.topology.operators.headers import decode_headers, encode_headers
from storekeeper.topology.operators.joined_windows import keep_for_each_other
from storekeeper.topology.operators.source import GlobalSource, Source
from storekeeper.topology.store import StoreKind
from storekeeper.topology.table import Table
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import Undo
from storekeeper.topology.wiring import Wiring, encoder

Joiner = Callable[[Any, Any, Any], Any]
Join = Callable[[Any, Any, Any, int], None]
"""Joins a record with the table's row: the row's key, then key, value and time of the record."""
Look = Callable[[Any, int], Any]
"""The table's row of a key, now or as of a time, or None."""


class StreamTableJoin(GraphNode):
    """A stream joined with a table by their common key. Only the stream's records give results.

    A record that comes from the same record as a change of the table meets the row with that change in it. One of a
    window that the table doesn't keep any more gives no result, and is counted.
    """

    meets = True

    def __init__(
        self, stream: GraphNode, table: TableNode, kind: str, joiner: Joiner, serdes: tuple[Serde[Any], Serde[Any]],
        *, keeps_unmatched: bool, grace_ms: int | None, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(stream.graph, kind, (stream, table), named=named, copartitioned=True)
        self._joiner = joiner
        self._serdes = key_serde(serdes[0]), serdes[1]
        self._keeps_unmatched = keeps_unmatched
        self._grace_ms = grace_ms
        table.require_rows()
        self._in_windows = keep_for_each_other(self)
        if grace_ms is not None:
            serde = BytesSerde()
            self.add_store(None, "buffer", lambda name, options: TopologyStore(
                name, StoreKind.KEY_VALUE, serde, serde, options, internal=True))  # fmt: skip

    def keeps_null_keys_of(self, source: Source) -> bool:
        """Whether records without key of this source give results."""
        return self._keeps_unmatched and source in ancestors(self.parents[0])

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Looks the key up at once, or when the record's grace is over."""
        table, forward, dropped = wiring.table(self.parents[1]), wiring.forward(self), wiring.dropped
        look = table.get_as_of if self.parents[1].versioned is not None else _now(table.get)  # type: ignore[attr-defined]
        joiner = wiring.guarded(self, self._joiner)
        join = _joining(look, joiner, forward, keeps_unmatched=self._keeps_unmatched)
        if self._in_windows:
            join = _unless_expired(join, table, dropped)
        keeps_unmatched, context = self._keeps_unmatched, wiring.context
        buffer, time = None, None

        def join_due(key: Any, value: Any, timestamp_ms: int) -> None:
            join(key, key, value, timestamp_ms)

        let_go: Push = join_due
        if self._grace_ms is not None:
            time = wiring.stream_time(self.name)
            keys, values = (wiring.serde(self, serde) for serde in self._serdes)
            buffer = GraceBuffer(wiring.typed(self.stores[0].name), self._grace_ms, (keys, values), wiring.undo)
            let_go = wiring.guards.releasing(self.name, join_due, encoder(*self._serdes))

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            now_ms = timestamp_ms if time is None else time.observe(timestamp_ms)
            if value is None or (key is None and not keeps_unmatched):
                dropped.drop(DropReason.NULL_VALUE if value is None else DropReason.NULL_KEY)
            elif key is None:
                forward(None, joiner(None, value, None), timestamp_ms)
            elif buffer is None or not buffer.add(key, value, timestamp_ms, now_ms, context.headers):
                join(key, key, value, timestamp_ms)
            else:
                release(buffer.take_due(now_ms))

        def release(due: Sequence[tuple[Any, Any, int, Sequence[Header]]]) -> None:
            under_way = context.origin
            for key, value, timestamp_ms, headers in due:
                context.come_from_headers(headers)
                let_go(key, value, timestamp_ms)
            context.come_from(under_way)

        meeting = wiring.meeting(self)
        return (push if meeting is None else collecting(push, meeting, wiring.context, wiring.undo),)


def collecting(push: Push, meeting: Meeting, context: RecordContext, undo: Undo | None) -> Push:
    """Takes records when their join is settled."""
    waiting: list[tuple[Any, Any, int, Origin]] = []
    if undo is not None:
        # It is empty when a record comes, and grows until the fork has passed on to everybody.
        undo.keep_length(waiting)

    def collect(key: Any, value: Any, timestamp_ms: int) -> None:
        if meeting.collects:
            waiting.append((key, value, timestamp_ms, context.origin))
        else:
            push(key, value, timestamp_ms)

    def settle() -> None:
        if not waiting:
            return
        under_way = context.origin
        records, waiting[:] = waiting.copy(), ()
        for key, value, timestamp_ms, origin in records:
            context.come_from(origin)
            push(key, value, timestamp_ms)
        context.come_from(under_way)

    meeting.settle = settle
    return collect


class GlobalJoin(GraphNode):
    """A stream joined with a global table by a key that is made from the record."""

    def __init__(
        self, stream: GraphNode, table: GlobalSource, kind: str, selector: Callable[[Any, Any], Any], joiner: Joiner,
        *, keeps_unmatched: bool, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(stream.graph, kind, (stream,), named=named)
        check_one_builder(stream.graph, [table])
        self.table = table
        self._selector = selector
        self._joiner = joiner
        self._keeps_unmatched = keeps_unmatched

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Looks the selected key up."""
        forward, dropped = wiring.forward(self), wiring.dropped
        selector, joiner = wiring.guarded(self, self._selector), wiring.guarded(self, self._joiner)
        keeps_unmatched = self._keeps_unmatched
        join = _joining(
            _now(wiring.global_tables[self.table.spec.name]), joiner, forward, keeps_unmatched=keeps_unmatched
        )

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            if value is None:
                dropped.drop(DropReason.NULL_VALUE)
                return
            table_key = selector(key, value)
            if table_key is not None:
                join(table_key, key, value, timestamp_ms)
            elif keeps_unmatched:
                forward(key, joiner(key, value, None), timestamp_ms)
            else:
                dropped.drop(DropReason.NULL_KEY)

        return (push,)


class GraceBuffer:
    """Records of the stream that wait until stream time has reached theirs plus the grace.

    The heap of their rows may have entries of rows that are gone, after records were left out.
    """

    def __init__(
        self, store: Any, grace_ms: int, serdes: tuple[Serde[Any], Serde[Any]], undo: Undo | None = None
    ) -> None:
        self._undo = undo
        if undo is not None:
            undo.keep(self, "_number")
        self._store = store
        self._grace_ms = grace_ms
        self._keys, self._values = serdes
        # Rows in the order of their keys, which begin with the time.
        self._order = [row_key for row_key, _ in store.all()]
        self._number = max((int.from_bytes(row_key[-4:], "big") for row_key in self._order), default=0)

    def add(self, key: Any, value: Any, timestamp_ms: int, now_ms: int, headers: Sequence[Header]) -> bool:
        """Adds a record; False if its grace is over already, so that it need not wait."""
        if timestamp_ms + self._grace_ms < now_ms:
            return False
        self._number = (self._number + 1) % (1 << 32)
        data = self._keys.serialize(key)
        row_key = timestamp_ms.to_bytes(8, "big") + data + self._number.to_bytes(4, "big")
        place = len(data).to_bytes(4, "big") + data + encode_headers(headers)
        self._store.put(row_key, place + self._values.serialize(value))
        heapq.heappush(self._order, row_key)
        return True

    def take_due(self, now_ms: int) -> list[tuple[Any, Any, int, Sequence[Header]]]:
        """Takes out the records whose grace is over, by time and key."""
        due: list[tuple[Any, Any, int, Sequence[Header]]] = []
        while self._order and int.from_bytes(self._order[0][:8], "big") + self._grace_ms <= now_ms:
            row_key = heapq.heappop(self._order)
            if self._undo is not None:
                self._undo.add(heapq.heappush, self._order, row_key)
            data = self._store.get(row_key)
            if data is None:
                continue
            key, value, headers = self._record(data)
            due.append((key, value, int.from_bytes(row_key[:8], "big"), headers))
            self._store.put(row_key, None)
        return due

    def _record(self, data: bytes) -> tuple[Any, Any, Sequence[Header]]:
        end = 4 + int.from_bytes(data[:4], "big")
        headers, at = decode_headers(data, end)
        return self._keys.deserialize(data[4:end]), self._values.deserialize(data[at:]), headers


def _now(get: Callable[[Any], Any]) -> Look:
    return lambda key, _timestamp_ms: get(key)


def _unless_expired(join: Join, table: Table[Any, Any], dropped: DroppedRecords) -> Join:
    def checked(table_key: Any, key: Any, value: Any, timestamp_ms: int) -> None:
        if table.get(table_key) is None and table.is_expired(table_key):
            dropped.drop(DropReason.EXPIRED_WINDOW)
        else:
            join(table_key, key, value, timestamp_ms)

    return checked


def _joining(look: Look, joiner: Joiner, forward: Push, *, keeps_unmatched: bool) -> Join:
    def join(table_key: Any, key: Any, value: Any, timestamp_ms: int) -> None:
        row = look(table_key, timestamp_ms)
        if row is not None:
            forward(key, joiner(key, value, row.value), timestamp_ms)
        elif keeps_unmatched:
            forward(key, joiner(key, value, None), timestamp_ms)

    return join
