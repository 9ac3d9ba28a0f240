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
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.forks import Meeting
from storekeeper.topology.functions import Push, WithKey, keyed, unmarked
from storekeeper.topology.node import GraphNode, TableNode, ancestors, check_one_builder
from storekeeper.topology.operators.headers import decode_headers, encode_headers
from storekeeper.topology.operators.joined_windows import keep_for_each_other
from storekeeper.topology.operators.source import GlobalSource, Source
from storekeeper.topology.records import value_of
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import Undo
from storekeeper.topology.wiring import Wiring, encoder

Joiner = Callable[[Any, Any, Any], Any]


class StreamTableJoin(GraphNode):
    """A stream joined with a table by their common key. Only the stream's records give results.

    A record that comes from the same record as a change of the table meets the row with that change in it. One of a
    window that the table doesn't keep any more gives no result, and is counted.
    """

    meets = True

    def __init__(
        self, stream: GraphNode, table: TableNode, kind: str, joiner: Any, serdes: tuple[Serde[Any], Serde[Any]],
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
        join, alone = self._joining(wiring), self._without_partner(wiring)
        let_go, context, push = join, wiring.context, join
        if self._grace_ms is not None:
            time = wiring.stream_time(self.name)
            keys, values = (wiring.serde(self, serde) for serde in self._serdes)
            buffer = GraceBuffer(wiring.typed(self.stores[0].name), self._grace_ms, (keys, values), wiring.undo)
            let_go = wiring.guards.releasing(self.name, join, encoder(*self._serdes))

            def push(key: Any, value: Any, timestamp_ms: int) -> None:
                now_ms = time.observe(timestamp_ms)
                if value is None or key is None:
                    alone(key, value, timestamp_ms)
                elif buffer.add(key, value, timestamp_ms, now_ms, context.headers):
                    release(buffer.take_due(now_ms))
                else:
                    join(key, value, timestamp_ms)

        def release(due: Sequence[tuple[Any, Any, int, Sequence[Header]]]) -> None:
            under_way = context.origin
            for key, value, timestamp_ms, headers in due:
                context.come_from_headers(headers)
                let_go(key, value, timestamp_ms)
            context.come_from(under_way)

        meeting = wiring.meeting(self)
        return (push if meeting is None else collecting(push, meeting, wiring.context, wiring.undo),)

    def _joining(self, wiring: Wiring) -> Push:
        """What joins a record. One function, as each call costs."""
        table_node = self.parents[1]
        table, forward, drop = wiring.table(table_node), wiring.forward(self), wiring.dropped.drop
        as_of = table.get_as_of if table_node.versioned is not None else None  # type: ignore[attr-defined]
        look_up, alone = table.looking_up(), self._without_partner(wiring)
        joiner, takes_key = wiring.guarded(self, unmarked(self._joiner)), isinstance(self._joiner, WithKey)
        in_windows = self._in_windows

        def join(key: Any, value: Any, timestamp_ms: int) -> None:
            if value is None or key is None:
                alone(key, value, timestamp_ms)
                return
            row = look_up(key) if as_of is None else value_of(as_of(key, timestamp_ms))
            if row is not None:
                forward(key, joiner(key, value, row) if takes_key else joiner(value, row), timestamp_ms)
            elif in_windows and table.is_expired(key):
                drop(DropReason.EXPIRED_WINDOW)
            else:
                alone(key, value, timestamp_ms)

        return join

    def _without_partner(self, wiring: Wiring) -> Push:
        """What takes a record without a row of its key, or without key or value."""
        forward, drop, joiner = wiring.forward(self), wiring.dropped.drop, wiring.guarded(self, keyed(self._joiner))

        def alone(key: Any, value: Any, timestamp_ms: int) -> None:
            if value is None:
                drop(DropReason.NULL_VALUE)
            elif self._keeps_unmatched:
                forward(key, joiner(key, value, None), timestamp_ms)
            elif key is None:
                drop(DropReason.NULL_KEY)

        return alone


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
        look_up = wiring.global_tables[self.table.spec.name]

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            if value is None:
                dropped.drop(DropReason.NULL_VALUE)
                return
            table_key = selector(key, value)
            row = None if table_key is None else look_up(table_key)
            if row is not None or keeps_unmatched:
                forward(key, joiner(key, value, value_of(row)), timestamp_ms)
            elif table_key is None:
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
