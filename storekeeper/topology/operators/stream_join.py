"""The join of two streams within a window.

Each side keeps its records in a window store. A record without a partner, on a side that may stand alone, waits in a
third store until its window is closed. Waiting rows are in the order in which they go out:

    key:   int64 timestamp, big-endian · 01 for the left side, 00 for the right · the record's key
    value: the records of that key and time, each with its length in 4 bytes in front: headers, then the value
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from storekeeper.serdes.round_trip import as_read_from
from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.stores.record_context import Header
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.join_windows import JoinWindows
from storekeeper.topology.node import GraphNode, ancestors
from storekeeper.topology.operators.headers import decode_headers, encode_headers
from storekeeper.topology.operators.source import Source
from storekeeper.topology.store import Store, StoreKind
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import Undo
from storekeeper.topology.windows import FOREVER_MS
from storekeeper.topology.wiring import Wiring, encoder

Joiner = Callable[[Any, Any, Any], Any]


class StreamJoin(GraphNode):
    """Two streams joined by key and time."""

    def __init__(
        self, left: GraphNode, right: GraphNode, kind: str, *, joiner: Joiner, windows: JoinWindows, keys: Serde[Any],
        values: tuple[Serde[Any], Serde[Any]], alone: tuple[bool, bool], store: Store[Any] | None, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(left.graph, kind, (left, right), named=named, copartitioned=True)
        self.joiner = joiner
        self.windows = windows
        self._keys = key_serde(keys)
        self.values = values
        self.alone = alone
        base = store.name if store is not None and store.name is not None else self.name
        self._buffers = [
            TopologyStore(
                f"{base}-{side}", StoreKind.WINDOW, keys, serde, store or Store(), windows.retention_ms, 1,
                retain_duplicates=True, internal=True,
            ) for side, serde in zip(("left", "right"), values, strict=True)
        ]  # fmt: skip
        self.stores += self._buffers
        self._waits = any(alone) and not windows.interval
        if self._waits:
            serde = BytesSerde()
            self.stores.append(
                TopologyStore(f"{base}-alone", StoreKind.KEY_VALUE, serde, serde, store or Store(), internal=True)
            )

    def keeps_null_keys_of(self, source: Source) -> bool:
        """Whether records without key of this source give results: they stand alone."""
        sides = [source in ancestors(parent) for parent in self.parents]
        return any(alone and above for alone, above in zip(self.alone, sides, strict=True))

    def released(self, wiring: Wiring, emit_alone: Callable[[Any, Any, int, bool], None], *, is_left: bool) -> Push:
        """What takes records of one side that have waited in vain."""
        return wiring.guards.releasing(
            self.name, lambda key, value, timestamp_ms: emit_alone(key, value, timestamp_ms, is_left),
            encoder(self._keys, self.values[0 if is_left else 1]),
        )  # fmt: skip

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """One entry for each side."""
        left, right = (wiring.typed(spec.name) for spec in self._buffers)
        waiting = None
        if self._waits:
            keys, left_values, right_values = (wiring.serde(self, serde) for serde in (self._keys, *self.values))
            waiting = Waiting(
                wiring.typed(self.stores[-1].name), self.windows, keys, (left_values, right_values), wiring.undo
            )
        sides = [
            Side(wiring, self, own, other, waiting, is_left=is_left)
            for own, other, is_left in ((left, right, True), (right, left, False))
        ]
        return tuple(side.take for side in sides)


class Side:
    """One side of a join: takes its records and looks for partners on the other."""

    def __init__(
        self, wiring: Wiring, join: StreamJoin, own: Any, other: Any, waiting: Waiting | None, *, is_left: bool
    ) -> None:
        self._forward = wiring.forward(join)
        self._drop = wiring.dropped.drop
        self._context = wiring.context
        self._time = wiring.stream_time(join.name)
        self._joiner, self._windows = wiring.guarded(join, join.joiner), join.windows
        self._let_go = [join.released(wiring, self._emit_alone, is_left=left) for left in (False, True)]
        self._own, self._other = own, other
        side, serde = ("left", join.values[0]) if is_left else ("right", join.values[1])
        self._as_read = wiring.guarded(join, as_read_from(f"{join.name}, {side} side", serde))
        self._waiting = waiting
        self._is_left = is_left
        self._may_be_alone = join.alone[0 if is_left else 1]
        self._closes_after_ms = join.windows.closes_after_ms(left=is_left)

    def take(self, key: Any, value: Any, timestamp_ms: int) -> None:
        """Takes the side's next record."""
        if value is None or (key is None and not self._may_be_alone):
            self._drop(DropReason.NULL_VALUE if value is None else DropReason.NULL_KEY)
            return
        if key is None:
            self._emit_alone(key, value, timestamp_ms, self._is_left)
            return
        value = self._as_read(key, value)
        now_ms = self._time.observe(timestamp_ms)
        if self._waiting is not None and now_ms > self._waiting.next_close_ms:
            self._release(self._waiting.take_closed(now_ms))
        self._own.put(key, value, timestamp_ms)
        if not self._emit_pairs(key, value, timestamp_ms) and self._may_be_alone:
            if self._waiting is None or timestamp_ms + self._closes_after_ms < now_ms:
                self._emit_alone(key, value, timestamp_ms, self._is_left)
            else:
                self._waiting.add(key, value, timestamp_ms, self._context.headers, left=self._is_left)

    def _release(self, closed: list[tuple[Any, Any, int, bool, Sequence[Header]]]) -> None:
        context = self._context
        under_way = context.origin
        for key, value, timestamp_ms, is_left, headers in closed:
            context.come_from_headers(headers)
            self._let_go[is_left](key, value, timestamp_ms)
        context.come_from(under_way)

    def _emit_alone(self, key: Any, value: Any, timestamp_ms: int, is_left: bool) -> None:
        joined = self._joiner(key, value, None) if is_left else self._joiner(key, None, value)
        self._forward(key, joined, timestamp_ms)

    def _emit_pairs(self, key: Any, value: Any, timestamp_ms: int) -> bool:
        partners = list(self._other.fetch(key, *self._windows.partners_of(timestamp_ms, left=self._is_left)))
        for partner_ms, partner in partners:
            if self._waiting is not None:
                self._waiting.discard(key, partner_ms, left=not self._is_left)
            joined = self._joiner(key, value, partner) if self._is_left else self._joiner(key, partner, value)
            self._forward(key, joined, max(timestamp_ms, partner_ms))
        return bool(partners)


class Waiting:
    """Records that have no partner yet. A heap gives the next one to close; the store has the rows.

    The heap may have entries of rows that are gone. So what a record has added to it stays if the record is left out.
    """

    def __init__(
        self, store: Any, windows: JoinWindows, keys: Serde[Any], values: tuple[Serde[Any], Serde[Any]],
        undo: Undo | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._undo = undo
        self._closes_after_ms = {left: windows.closes_after_ms(left=left) for left in (True, False)}
        self._keys = keys
        self._values = values
        self._heap: list[tuple[int, bytes]] = []
        for row_key, _ in store.all():
            self._expect(row_key)

    @property
    def next_close_ms(self) -> int:
        """No row's window is closed until stream time is greater."""
        return self._heap[0][0] if self._heap else FOREVER_MS

    def add(self, key: Any, value: Any, timestamp_ms: int, headers: Sequence[Header], *, left: bool) -> None:
        """Adds a record."""
        row_key = self._row_key(key, timestamp_ms, left=left)
        data = encode_headers(headers) + self._values[0 if left else 1].serialize(value)
        earlier = self._store.get(row_key)
        self._store.put(row_key, (earlier or b"") + len(data).to_bytes(4, "big") + data)
        if earlier is None:
            self._expect(row_key)

    def discard(self, key: Any, timestamp_ms: int, *, left: bool) -> None:
        """Forgets the records of a key and time, if there are any: they have a partner."""
        row_key = self._row_key(key, timestamp_ms, left=left)
        if self._store.get(row_key) is not None:
            self._store.put(row_key, None)

    def take_closed(self, now_ms: int) -> list[tuple[Any, Any, int, bool, Sequence[Header]]]:
        """Takes out key, value, time, side and headers of the records whose window is closed, by time and key."""
        closed = set()
        while self.next_close_ms < now_ms:
            entry = heapq.heappop(self._heap)
            closed.add(entry[1])
            if self._undo is not None:
                self._undo.add(heapq.heappush, self._heap, entry)
        taken: list[tuple[Any, Any, int, bool, Sequence[Header]]] = []
        for row_key in sorted(closed):
            data = self._store.get(row_key)
            if data is None:
                continue
            self._store.put(row_key, None)
            timestamp_ms, left = _place(row_key)
            key, serde = self._keys.deserialize(row_key[9:]), self._values[0 if left else 1]
            for part in _parts(data):
                headers, at = decode_headers(part)
                taken.append((key, serde.deserialize(part[at:]), timestamp_ms, left, headers))
        return taken

    def _expect(self, row_key: bytes) -> None:
        timestamp_ms, left = _place(row_key)
        heapq.heappush(self._heap, (timestamp_ms + self._closes_after_ms[left], row_key))

    def _row_key(self, key: Any, timestamp_ms: int, *, left: bool) -> bytes:
        return timestamp_ms.to_bytes(8, "big") + (b"\x01" if left else b"\x00") + self._keys.serialize(key)


def _place(row_key: bytes) -> tuple[int, bool]:
    return int.from_bytes(row_key[:8], "big"), row_key[8] == 1


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : end]
        at = end
