"""Operators of every kind, each with records of which every tenth fails after it has changed something.

`python -m tests.topology.careful_kinds 4000 16000` prints how many records a second a careful run takes of each.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from storekeeper.errors import SerializationError
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology import (
    EmitStrategy,
    JoinWindows,
    Store,
    StreamsBuilder,
    sessions,
    tumbling,
    until_limit,
    until_window_closes,
)
from storekeeper.topology.careful_task import CarefulTask
from storekeeper.topology.records import Batch, Record, StoreChange
from storekeeper.topology.store import StoreKind

MS = timedelta(milliseconds=1)
BAD_EVERY = 10
FAR_MS = 10**9
FAR = FAR_MS * MS
"""Longer than any input: everything waits."""
OVERSIZE = "oversize"


def fails(value: int | None) -> bool:
    return value is not None and value % BAD_EVERY == BAD_EVERY - 1


def checked(_: Any, value: int | None) -> bool:
    if fails(value):
        raise ValueError(value)
    return True


def guarded(stream: Any) -> None:
    """What fails behind the operator, when that has changed something."""
    stream.filter(checked).to("out")


def first_mapper(streams: StreamsBuilder) -> None:
    streams.stream("one", int).filter(checked).to("out")


def adder(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    one.group_by_key().aggregate(int, lambda total, value: total + value, store=Store("sums", int))
    guarded(one)


def suppress(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    one.to_table(store=Store("newest", int)).suppress(until_limit(FAR)).to_stream().to("released")
    guarded(one)


def released(streams: StreamsBuilder) -> None:
    newest = streams.stream("one", int).to_table(store=Store("newest", int))
    guarded(newest.suppress(until_limit(50 * MS)).to_stream())


def cached(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    one.to_table(store=Store("cached", int, caching=True)).to_stream().to("released")
    guarded(one)


def cached_releases(streams: StreamsBuilder) -> None:
    guarded(streams.stream("one", int).to_table(store=Store("cached", int, caching=True)).to_stream())


def closing(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    windows = one.group_by_key().windowed_by(tumbling(FAR), emit=EmitStrategy.ON_WINDOW_CLOSE)
    windows.count(store="windows").to_stream().to("released")
    guarded(one)


def closed(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    windows = one.group_by_key().windowed_by(tumbling(20 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    last = windows.aggregate(int, lambda _, value: value, store=Store("windows", int))
    guarded(last.to_stream())


def session(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    counts = one.group_by_key().windowed_by(sessions(MS)).count(store="sessions")
    counts.suppress(until_window_closes(sessions(MS))).to_stream().to("released")
    guarded(one)


def stream_join(streams: StreamsBuilder) -> None:
    one, two = streams.stream("one", int), streams.stream("two", int)
    one.outer_join(
        two, lambda left, right: (left or 0) + (right or 0), JoinWindows(FAR_MS, FAR_MS, FAR_MS), values=int
    ).to("joined")
    guarded(one)


def fk_join(streams: StreamsBuilder) -> None:
    left, right = streams.table("one", int, store="left"), streams.table("two", int, store="right")
    left.foreign_key_join(right, lambda value: f"k{value % 5}", lambda one, two: one + two, values=int).to_stream().to(
        "joined"
    )
    guarded(left.to_stream())


def diamond(streams: StreamsBuilder) -> None:
    table = streams.table("one", int, store=Store("newest", int, caching=True))
    table.join(table.map_values(lambda value: value), lambda one, two: one + two, values=int, store="both")
    guarded(table.to_stream())


def oversize(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    one.map_values(lambda value: OVERSIZE if fails(value) else "", values=str).to_table(store=Store("texts", str))


def versioned(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    one.to_table(store=Store("newest", int, history=FAR))
    guarded(one)


def busy_key(streams: StreamsBuilder) -> None:
    streams.add_store(Store("versions", int, kind=StoreKind.VERSIONED, history=FAR))
    one = streams.stream("one", int)
    one.process(Asking, stores=["versions"], values=int).to("kept")
    guarded(one)


def as_of(streams: StreamsBuilder) -> None:
    one = streams.stream("one", int)
    newest = streams.stream("two", int).to_table(store=Store("newest", int, history=FAR))
    one.left_join(newest, lambda left, _: left, grace=1_000_000 * MS, values=int).to("joined")
    guarded(one)


def expiring(streams: StreamsBuilder) -> None:
    streams.add_store(Store("kept", int, kind=StoreKind.TTL, ttl=20 * MS))
    one = streams.stream("one", int)
    one.process(ProcessSupervisor, stores=["kept"], values=int).to("kept")
    guarded(one)


class ProcessSupervisor:
    """Writes to a store, and counts by itself."""

    def init(self, context: Any) -> None:
        self._store = context.store("kept")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self._store.put(key, value, timestamp_ms)


class Asking:
    """Keeps the versions of one key, and asks for the newest."""

    def init(self, context: Any) -> None:
        self._store = context.store("versions")

    def process(self, _: str, value: int, timestamp_ms: int) -> None:
        self._store.get("busy")
        self._store.put("busy", value, timestamp_ms)


KINDS: dict[str, Callable[[StreamsBuilder], None]] = {
    describe.__name__.replace("_", "-"): describe
    for describe in (
        first_mapper, adder, suppress, released, cached, cached_releases, closing, closed, session, stream_join,
        fk_join, diamond, oversize, versioned, busy_key, as_of, expiring,
    )
}  # fmt: skip


def records(number: int, topics: set[str]) -> Iterator[Record]:
    """Records of many keys, each a millisecond after the one before."""
    for at in range(number):
        topic = "two" if at % 3 == 2 and "two" in topics else "one"
        key = f"k{at}" if topic == "one" else f"k{at % 5}"
        yield Record(topic, 0, at, 1_700_000_000_000 + at, key.encode(), b"%d" % at, ())


def check_size(change: StoreChange) -> None:
    if change.value is not None and OVERSIZE.encode() in change.value:
        raise SerializationError("it is too large")


def prepared(kind: str, number: int) -> Callable[[], Batch]:
    """A careful run of that many records."""
    streams = StreamsBuilder("app")
    KINDS[kind](streams)
    topology = streams.build()
    sub = next(sub for sub in topology.sub_topologies if any(source.topic == "one" for source in sub.sources))
    batch = list(records(number, {source.topic for source in sub.sources}))
    task = CarefulTask(sub, 0, MemorySupplier(), check_change=check_size)

    def run() -> Batch:
        task.process(batch)
        found = task.end_batch()
        task.apply()
        return found

    return run


def bad(kind: str, number: int) -> int:
    """How many dead letters there must be."""
    has_two = kind in {"stream-join", "as-of"}
    return sum(at % BAD_EVERY == BAD_EVERY - 1 and not (has_two and at % 3 == 2) for at in range(number))


def _measure(numbers: list[int]) -> None:
    for kind in KINDS:
        rates = []
        for number in numbers:
            run = prepared(kind, number)
            gc.collect()
            began = time.process_time()
            run()
            rates.append(f"{number / (time.process_time() - began):>10,.0f}")
        print(f"{kind:<16}", *rates, flush=True)


if __name__ == "__main__":
    _measure([int(argument) for argument in sys.argv[1:]] or [4_000, 16_000, 64_000])
