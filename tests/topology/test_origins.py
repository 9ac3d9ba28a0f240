"""What waited goes out as what it is: with the headers of its own record, whichever record lets it go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from storekeeper.topology import (
    CrashStep,
    EmitStrategy,
    JoinWindows,
    KStream,
    ProcessorContext,
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    tumbling,
    until_limit,
    until_window_closes,
)
from storekeeper.topology.records import Record
from storekeeper.topology.times import TimeKind

MS = timedelta(milliseconds=1)
Fed = tuple[str, str, int]
Describe = Callable[[StreamsBuilder], KStream[Any, Any]]


def suppressed(streams: StreamsBuilder) -> KStream[Any, Any]:
    return streams.table("in", int, store="rows").suppress(until_limit(10 * MS)).to_stream()


def kept_below_a_suppression(streams: StreamsBuilder) -> KStream[Any, Any]:
    waiting = streams.table("in", int, store="rows").suppress(until_limit(10 * MS))
    return waiting.map_values(lambda value: value + 1, values=int, store="kept").to_stream()


def alone(streams: StreamsBuilder) -> KStream[Any, Any]:
    left, right = streams.stream("in", int), streams.stream("other", int)
    return left.left_join(right, lambda one, two: one, JoinWindows.of(5 * MS), values=int)


def as_of(streams: StreamsBuilder) -> KStream[Any, Any]:
    table = streams.table("other", int, store=Store("other", int, history=100 * MS))
    return streams.stream("in", int).left_join(table, lambda one, two: one, grace=5 * MS, values=int)


def cached(streams: StreamsBuilder) -> KStream[Any, Any]:
    return streams.table("in", int, store=Store("rows", int, caching=True)).to_stream()


def cached_and_met_again(streams: StreamsBuilder) -> KStream[Any, Any]:
    table = streams.table("in", int, store="rows")
    mapped = table.map_values(lambda value: value, values=int, store=Store("mapped", int, caching=True))
    return table.join(mapped, lambda one, two: one, values=int).to_stream()


OWN = [suppressed, kept_below_a_suppression, alone, as_of, cached, cached_and_met_again]
FEED: list[Fed] = [("in", "a", 0), ("in", "b", 1), ("in", "c", 50), ("in", "d", 100)]


def on_close(streams: StreamsBuilder) -> KStream[Any, Any]:
    grouped = streams.stream("in", int).group_by_key()
    return grouped.windowed_by(tumbling(10 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE).count().to_stream()


def final(streams: StreamsBuilder) -> KStream[Any, Any]:
    windows = tumbling(10 * MS)
    counts = streams.stream("in", int).group_by_key().windowed_by(windows).count()
    return counts.suppress(until_window_closes(windows)).to_stream()


class Ticking:
    """Forwards at each tick of stream time."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        context.schedule(10, TimeKind.STREAM_TIME, lambda now_ms: context.forward("tick", now_ms))

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        pass


def ticking(streams: StreamsBuilder) -> KStream[Any, Any]:
    return streams.stream("in", int).process(Ticking, values=int)


def outcome(describe: Describe, batch: int, crash: CrashStep | None = None) -> list[tuple[str, list[bytes | None]]]:
    """Key and users of each record that comes out."""
    streams = StreamsBuilder("app")
    describe(streams).map(lambda key, _: (str(getattr(key, "key", key)), "x"), values=str).to("out")
    streams.stream("out", str).to("end")
    driver = TopologyTestDriver(streams.build())
    for at in range(0, len(FEED), batch):
        if crash is not None:
            driver.crash_at(crash)
        for offset, (topic, key, time_ms) in enumerate(FEED[at : at + batch], start=at):
            driver._append(Record(topic, 0, offset, time_ms, key.encode(), b"1", (("user", key.encode()),)))
        driver.run()
    return [((record.key or b"").decode(), [user for _, user in record.headers]) for record in driver._logs["out", 0]]


@pytest.mark.parametrize("describe", OWN)
@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("crash", [None, *CrashStep])
def test_a_row_has_the_headers_of_the_record_that_made_it(
    describe: Describe, batch: int, crash: CrashStep | None
) -> None:
    found = outcome(describe, batch, crash)
    assert [key for key, _ in found][:2] == ["a", "b"]
    assert found == [(key, [key.encode()]) for key, _ in found]


@pytest.mark.parametrize("describe", [on_close, ticking])
@pytest.mark.parametrize("batch", [1, 4])
def test_what_comes_from_no_record_has_none(describe: Describe, batch: int) -> None:
    found = outcome(describe, batch)
    assert len(found) > 1
    assert {len(headers) for _, headers in found} == {0}


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_a_final_result_has_the_headers_of_its_last_record(batch: int) -> None:
    assert outcome(final, batch) == [(key, [key.encode()]) for key in "abc"]


@pytest.mark.parametrize("batch", [2, 4])
def test_a_row_below_a_suppression_has_the_trace_of_its_own_record(batch: int) -> None:
    streams = StreamsBuilder("app")
    kept_below_a_suppression(streams)
    driver = TopologyTestDriver(streams.build())
    traces = {key: f"00-{key * 32}-{key * 16}-01".encode() for key in "abcd"}
    for at in range(0, len(FEED), batch):
        for offset, (topic, key, time_ms) in enumerate(FEED[at : at + batch], start=at):
            record = Record(topic, 0, offset, time_ms, key.encode(), b"1", (("traceparent", traces[key]),))
            driver._append(record)
        driver.run()
    found = {change.key.decode(): change.trace for change in driver._changelogs["kept", 0]}
    assert found == {key: traces[key] for key in "abc"}
