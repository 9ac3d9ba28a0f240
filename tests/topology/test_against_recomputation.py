"""Joins and windows, against a recomputation of the whole input."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import JoinWindows, Store, StreamsBuilder, TopologyTestDriver, hopping, sessions, sliding

MS = timedelta(milliseconds=1)
RECORDS = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)),
    max_size=20,
)
Records = list[tuple[str, str, int, int]]
UPSERTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.none() | st.integers(0, 3)), max_size=5
    ),
    max_size=6,
)
Upserts = list[list[tuple[str, str, int | None]]]
NAMED = {0: "a", 1: "b", 2: "a"}
LONG = 1000 * MS


def run(streams: StreamsBuilder, records: Records) -> TopologyTestDriver:
    driver = TopologyTestDriver(streams.build())
    for topic, key, value, timestamp_ms in records:
        if topic in driver.plan.partitions:
            driver.pipe(topic, key, value, timestamp_ms)
    return driver


def run_batches(
    streams: StreamsBuilder, batches: Upserts, partitions: dict[str, int] | None = None
) -> TopologyTestDriver:
    driver = TopologyTestDriver(streams.build(), partitions)
    times_ms = count()
    for batch in batches:
        for topic, key, value in batch:
            driver.append(topic, key, value, next(times_ms))
        driver.run()
    return driver


def rows_of(batches: Upserts, topic: str) -> dict[str, int]:
    newest = {key: value for batch in batches for side, key, value in batch if side == topic}
    return {key: value for key, value in newest.items() if value is not None}


@settings(max_examples=150)
@given(records=RECORDS, before=st.integers(0, 10), after=st.integers(0, 10))
def test_an_inner_join_gives_every_pair_within_the_window_once(records: Records, before: int, after: int) -> None:
    streams = StreamsBuilder("app")
    left, right = streams.stream("left", int), streams.stream("right", int)
    windows = JoinWindows(before, after, 1000)
    left.join(right, lambda one, two: [one, two], windows, values=list).to("out")
    found = [(record.key, *record.value, record.timestamp_ms) for record in run(streams, records).read("out")]
    pairs = [
        (key, one, two, max(left_ms, right_ms))
        for side, key, one, left_ms in records
        for other, other_key, two, right_ms in records
        if (side, other) == ("left", "right") and key == other_key and left_ms - before <= right_ms <= left_ms + after
    ]
    assert sorted(found) == sorted(pairs)


@settings(max_examples=150)
@given(records=RECORDS, before=st.integers(0, 10), after=st.integers(0, 10), grace=st.integers(0, 10))
def test_in_an_outer_join_each_record_has_partners_or_stands_alone(
    records: Records, before: int, after: int, grace: int
) -> None:
    records = sorted(records, key=lambda record: record[3])
    streams = StreamsBuilder("app")
    left, right = streams.stream("left", int), streams.stream("right", int)
    left.outer_join(right, lambda one, two: [one, two], JoinWindows(before, after, grace), values=list).to("out")
    ending = [("left", "end", 0, 10_000), ("right", "end", 0, 10_000)]
    read = run(streams, [*records, *ending]).read("out")
    found = [(record.key, *record.value, record.timestamp_ms) for record in read if record.key != "end"]

    def partners(record: tuple[str, str, int, int]) -> list[int]:
        side, key, _, timestamp_ms = record
        back, ahead = (before, after) if side == "left" else (after, before)
        return [
            other[3] for other in records
            if other[0] != side and other[1] == key and timestamp_ms - back <= other[3] <= timestamp_ms + ahead
        ]  # fmt: skip

    alone = [record for record in records if not partners(record)]
    expected = [(key, value, None, ms) if side == "left" else (key, None, value, ms) for side, key, value, ms in alone]
    assert sorted(row for row in map(repr, found) if "None" in row) == sorted(map(repr, expected))


@settings(max_examples=150)
@given(records=RECORDS, size=st.integers(1, 12), advance=st.integers(1, 12))
def test_hopping_windows(records: Records, size: int, advance: int) -> None:
    streams = StreamsBuilder("app")
    windows = hopping(size * MS, advance=min(advance, size) * MS, grace=LONG)
    streams.stream("left", int).group_by_key().windowed_by(windows).count(store="counts")
    expected: dict[tuple[str, int, int], int] = {}
    for topic, key, _, timestamp_ms in records:
        for start in range(0, timestamp_ms + 1, min(advance, size)):
            if topic == "left" and start <= timestamp_ms < start + size:
                window = (key, start, start + size)
                expected[window] = expected.get(window, 0) + 1
    assert dict(run(streams, records).rows("counts")) == expected


@settings(max_examples=150)
@given(records=RECORDS, gap=st.integers(1, 8))
def test_sessions(records: Records, gap: int) -> None:
    streams = StreamsBuilder("app")
    streams.stream("left", int).group_by_key().windowed_by(sessions(gap * MS, grace=LONG)).count(store="counts")
    expected: dict[tuple[str, int, int], int] = {}
    for wanted in "ab":
        run_of: list[int] = []
        times = sorted(ms for topic, key, _, ms in records if (topic, key) == ("left", wanted))
        for timestamp_ms in [*times, 10**9]:
            if run_of and timestamp_ms - run_of[-1] > gap:
                expected[wanted, run_of[0], run_of[-1]] = len(run_of)
                run_of = []
            run_of.append(timestamp_ms)
    assert dict(run(streams, records).rows("counts")) == expected


@settings(max_examples=150)
@given(records=RECORDS, reach=st.integers(1, 8))
def test_sliding_windows(records: Records, reach: int) -> None:
    streams = StreamsBuilder("app")
    streams.stream("left", int).group_by_key().windowed_by(sliding(reach * MS, grace=LONG)).count(store="counts")
    expected = {}
    for wanted in "ab":
        times = [ms for topic, key, _, ms in records if (topic, key) == ("left", wanted)]
        starts = {max(0, ms - reach) for ms in times} | {ms + 1 for ms in times}
        for start in starts:
            inside = sum(start <= ms <= start + reach for ms in times)
            if inside:
                expected[wanted, start, start + reach] = inside
    assert dict(run(streams, records).rows("counts")) == expected


@settings(max_examples=300)
@given(
    batches=UPSERTS,
    caching=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    kind=st.sampled_from(["join", "left_join", "outer_join"]),
)
def test_a_table_join_counts_every_row_once_whatever_is_held_back(
    batches: Upserts, caching: tuple[bool, bool, bool], kind: str
) -> None:
    streams = StreamsBuilder("app")
    left = streams.table("left", int, store=Store("lefts", int, caching=caching[0])).filter(lambda _, value: value > 0)
    right = streams.table("right", int, store=Store("rights", int, caching=caching[1]))
    store = Store("joined", list, caching=True) if caching[2] else None
    joined = getattr(left, kind)(right, lambda one, two: [one, two], values=list, store=store)
    joined.group_by(lambda _, pair: (str(pair), 1), values=int).count(store="counts")
    lefts = {key: value for key, value in rows_of(batches, "left").items() if value > 0}
    rights = rows_of(batches, "right")
    keys = {"join": lefts.keys() & rights.keys(), "left_join": lefts.keys(), "outer_join": lefts.keys() | rights.keys()}
    expected = Counter(str([lefts.get(key), rights.get(key)]) for key in keys[kind])
    found = dict(run_batches(streams, batches).rows("counts"))
    assert {pair: number for pair, number in found.items() if number} == expected


@settings(max_examples=300)
@given(
    batches=UPSERTS,
    kind=st.sampled_from(["foreign_key_join", "foreign_key_left_join"]),
    store=st.none() | st.just("joined"),
    partitions=st.integers(1, 2),
)
def test_a_foreign_key_join_is_a_look_up_after_every_batch(
    batches: Upserts, kind: str, store: str | None, partitions: int
) -> None:
    streams = StreamsBuilder("app")
    left, right = streams.table("left", int), streams.table("right", int)
    joined = getattr(left, kind)(right, NAMED.get, lambda one, two: [one, two], values=list, store=store)
    joined.to_stream().to("out")
    driver = run_batches(streams, batches, {"left": partitions, "right": partitions})
    rights = rows_of(batches, "right")
    pairs = {key: [value, rights.get(NAMED.get(value, ""))] for key, value in rows_of(batches, "left").items()}
    expected = {key: pair for key, pair in pairs.items() if pair[1] is not None or kind == "foreign_key_left_join"}
    newest = {record.key: record.value for record in driver.read("out")}
    assert {key: pair for key, pair in newest.items() if pair is not None} == expected
    if store is not None:
        assert dict(driver.rows(store)) == expected
