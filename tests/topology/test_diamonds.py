"""Random tables that fork and meet again, against a recomputation: each change of a source counts once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import CrashStep, KTable, Store, StreamsBuilder, Topology, TopologyTestDriver, until_limit

MODULUS = 1009
Rows = dict[str, int]
Pair = tuple[int | None, int | None]
Record = tuple[str, str, int | None]


class Step(NamedTuple):
    """One table that is made of earlier ones, which are given by their numbers modulo the number of tables so far."""

    kind: str
    left: int
    right: int
    number: int
    stored: bool
    cached: bool


KINDS = ["filter", "map", "again", "streamed", "join", "left_join", "left_join", "outer_join", "join"]


def steps_of(kinds: list[str]) -> st.SearchStrategy[list[Step]]:
    number = st.integers(0, 9)
    step = st.builds(Step, st.sampled_from(kinds), number, number, st.integers(1, 4), st.booleans(), st.booleans())
    return st.lists(step, min_size=1, max_size=7)


STEPS = steps_of(KINDS)
STEPS_THAT_WAIT = steps_of([*KINDS, "suppress", "suppress"])
LIMIT = timedelta(milliseconds=3)
FLUSH = "flush"
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.none() | st.integers(0, 6)), max_size=12)
CUTS = st.sets(st.integers(0, 12))
CRASHES = st.dictionaries(st.integers(0, 12), st.sampled_from(CrashStep), max_size=4)


def joined(left: int | None, right: int | None) -> int:
    return (31 * (left or 0) + 7 * (right or 0) + 1) % MODULUS


def passes(number: int) -> Callable[[Any, int], bool]:
    return lambda key, value: value % (number + 1) != 0 or key == FLUSH


def multiplied(number: int) -> Callable[[int], int]:
    return lambda value: value * (number + 1) % MODULUS


@dataclass
class Diamonds:
    """A random topology, and what its tables must hold.

    Attributes:
        steps: how its tables are made.
        topics: its sources.
        caching: whether steps may cache.
        pairs: by the number of a join the pairs that its joiner was called with.
    """

    steps: list[Step]
    topics: str = "ab"
    caching: bool = True
    pairs: dict[int, set[Pair]] = field(default_factory=dict)

    def topology(self) -> Topology:
        streams = StreamsBuilder("app")
        tables: list[KTable[str, int]] = [streams.table(topic, int, store=f"{topic}-rows") for topic in self.topics]
        for number, step in enumerate(self.steps):
            tables.append(self._table(streams, tables, number, step))
        for number, table in enumerate(tables):
            table.to_stream().to(f"out-{number}", values=int)
            grouped = table.group_by(lambda key, value: (key, value), values=int)
            grouped.reduce(
                lambda total, value: total + value, lambda total, value: total - value, store=f"sum-{number}"
            )
        return streams.build()

    def _table(
        self, streams: StreamsBuilder, tables: list[KTable[str, int]], number: int, step: Step
    ) -> KTable[str, int]:
        store = Store(f"rows-{number}", int, caching=step.cached and self.caching) if step.stored else None
        left, right = tables[step.left % len(tables)], tables[step.right % len(tables)]
        if step.kind == "filter":
            return left.filter(passes(step.number), store=store)
        if step.kind == "map":
            return left.map_values(multiplied(step.number), values=int, store=store)
        if step.kind == "again":
            topic = self.topics[step.left % len(self.topics)]
            return streams.table(topic, int, store=store, named=f"again-{number}")
        if step.kind == "streamed":
            return left.to_stream().to_table(store=store)
        if step.kind == "suppress":
            return left.suppress(until_limit(LIMIT))
        pairs = self.pairs.setdefault(number, set())

        def joiner(one: int | None, two: int | None) -> int:
            pairs.add((one, two))
            return joined(one, two)

        result: KTable[str, int] = getattr(left, step.kind)(right, joiner, values=int, store=store)
        return result

    def rows(self, sources: dict[str, Rows]) -> list[Rows]:
        """The rows of all tables."""
        tables = [sources[topic] for topic in self.topics]
        for step in self.steps:
            left, right = tables[step.left % len(tables)], tables[step.right % len(tables)]
            if step.kind == "filter":
                made = {key: value for key, value in left.items() if passes(step.number)(key, value)}
            elif step.kind == "map":
                made = {key: multiplied(step.number)(value) for key, value in left.items()}
            elif step.kind in {"streamed", "suppress"}:
                made = left
            elif step.kind == "again":
                made = sources[self.topics[step.left % len(self.topics)]]
            else:
                keys = {"join": left.keys() & right.keys(), "left_join": left.keys()}
                wanted = keys.get(step.kind, left.keys() | right.keys())
                made = {key: joined(left.get(key), right.get(key)) for key in wanted}
            tables.append(made)
        return tables

    def pairs_now(self, sources: dict[str, Rows]) -> dict[int, set[Pair]]:
        """The pairs of rows that meet in each join."""
        tables = self.rows(sources)
        found: dict[int, set[Pair]] = {}
        for number, step in enumerate(self.steps):
            count = number + len(self.topics)
            left, right = tables[step.left % count], tables[step.right % count]
            found[number] = {(left.get(key), right.get(key)) for key in "xy"}
        return found


def applied(sources: dict[str, Rows], record: Record) -> None:
    topic, key, value = record
    if value is None:
        sources[topic].pop(key, None)
    else:
        sources[topic][key] = value


def expect_rows(diamonds: Diamonds, driver: TopologyTestDriver, newest: list[Rows], sources: dict[str, Rows]) -> None:
    for number, rows in enumerate(diamonds.rows(sources)):
        newest[number].pop(FLUSH, None)
        assert newest[number] == rows
        sums = {key: value for key, value in driver.rows(f"sum-{number}") if value and key != FLUSH}
        assert sums == {key: value for key, value in rows.items() if value}


def read_into(driver: TopologyTestDriver, newest: list[Rows]) -> list[list[Any]]:
    """What came out of each table."""
    read = [driver.read(f"out-{number}") for number in range(len(newest))]
    for rows, records in zip(newest, read, strict=True):
        for key, value, _ in records:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return read


def expect_one_result_for_each_change(steps: list[Step], records: list[Record], topics: str) -> None:
    diamonds = Diamonds(steps, topics, caching=False)
    driver = TopologyTestDriver(diamonds.topology())
    sources: dict[str, Rows] = {topic: {} for topic in topics}
    allowed: dict[int, set[Pair]] = {number: set() for number in range(len(steps))}
    newest: list[Rows] = [{} for _ in range(len(steps) + len(topics))]
    for time, record in enumerate(records):
        if record[0] not in topics:
            continue
        driver.pipe(*record, time)
        applied(sources, record)
        for records_of_table in read_into(driver, newest):
            assert len(records_of_table) <= 1
        expect_rows(diamonds, driver, newest, sources)
        for number, pairs in diamonds.pairs_now(sources).items():
            allowed[number] |= pairs
    for number, pairs in diamonds.pairs.items():
        assert pairs <= allowed[number]


def expect_the_same_for_all_cuts(
    steps: list[Step], records: list[Record], cuts: set[int], crashes: dict[int, CrashStep]
) -> None:
    diamonds = Diamonds(steps)
    driver = TopologyTestDriver(diamonds.topology())
    sources: dict[str, Rows] = {"a": {}, "b": {}}
    newest: list[Rows] = [{} for _ in range(len(steps) + 2)]
    for time, record in enumerate(records):
        driver.append(*record, time)
        applied(sources, record)
        if time in cuts:
            if time in crashes:
                driver.crash_at(crashes[time])
            driver.run()
    driver.run()
    for time in range(1000, 1000 * (len(steps) + 3), 1000):
        # Each lets go what waits in one suppression after the other.
        for topic in "ab":
            driver.append(topic, FLUSH, 1, time)
        driver.run()
    read_into(driver, newest)
    expect_rows(diamonds, driver, newest, sources)


def expect_streams_to_meet_the_row_after_the_change(
    steps: list[Step], records: list[Record], places: tuple[int, int], *, first: bool
) -> None:
    diamonds = Diamonds(steps, "a", caching=False)
    place, other = (number % (len(steps) + 1) for number in places)
    streams = StreamsBuilder("app")
    tables = [streams.table("a", int, store="a-rows")]
    early = tables[0].to_stream() if first else None
    for number, step in enumerate(steps):
        tables.append(diamonds._table(streams, tables, number, step))
    stream = tables[place].to_stream() if early is None else early
    stream.left_join(tables[other], lambda one, two: [one, two], values=list).to("out", values=list)
    driver = TopologyTestDriver(streams.build())
    sources: dict[str, Rows] = {"a": {}}
    for time, record in enumerate(records):
        if record[0] != "a":
            continue
        driver.pipe(*record, time)
        applied(sources, record)
        rows, key = diamonds.rows(sources), record[1]
        value = rows[place if early is None else 0].get(key)
        for _, pair, _ in driver.read("out"):
            assert pair == [value, rows[other].get(key)]


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, records=RECORDS, places=st.tuples(st.integers(0, 9), st.integers(0, 9)), first=st.booleans())
def test_a_stream_of_changes_meets_rows_with_the_change_in_them(
    steps: list[Step], records: list[Record], places: tuple[int, int], first: bool
) -> None:
    expect_streams_to_meet_the_row_after_the_change(steps, records, places, first=first)


class Place(msgspec.Struct):
    """A key that has no hash."""

    name: str


def test_keys_are_the_same_if_their_bytes_are() -> None:
    streams = StreamsBuilder("app")
    table = streams.table("a", int, keys=Place, store="rows")
    table.join(table.filter(lambda _, value: value > 1), joined, values=int).to_stream().to("out", values=int)
    driver = TopologyTestDriver(streams.build())
    for time, value in enumerate([2, 1, 3]):
        driver.append("a", Place("x"), value, time)
    driver.run()
    assert [value for _, value, _ in driver.read("out")] == [joined(2, 2), None, joined(3, 3)]


def test_a_pair_that_fails_when_the_batch_ends_is_a_dead_letter_of_its_own() -> None:
    streams = StreamsBuilder("app")
    table = streams.table("a", int, store="rows")
    mapped = table.map_values(lambda value: value * 10, values=int, store=Store("mapped", int, caching=True))

    def joiner(one: int, two: int) -> int:
        if one == 3:
            raise ValueError
        return one + two

    table.join(mapped, joiner, values=int, store="sums").to_stream().to("out", values=int)
    driver = TopologyTestDriver(streams.build())
    for time, (key, value) in enumerate([("x", 1), ("y", 3), ("z", 2)]):
        driver.append("a", key, value, time)
    driver.run()
    assert driver.read("out") == [("x", 11, 0), ("z", 22, 2)]
    assert [letter.record.key for letter in driver.dead_letters] == [b"y"]


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, records=RECORDS, topics=st.sampled_from(["a", "ab"]))
def test_each_change_gives_one_result_of_rows_that_were_together(
    steps: list[Step], records: list[Record], topics: str
) -> None:
    expect_one_result_for_each_change(steps, records, topics)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS_THAT_WAIT, records=RECORDS, cuts=CUTS, crashes=CRASHES)
def test_batches_caches_and_crashes_change_no_row(
    steps: list[Step], records: list[Record], cuts: set[int], crashes: dict[int, CrashStep]
) -> None:
    expect_the_same_for_all_cuts(steps, records, cuts, crashes)


@pytest.mark.long("test_diamonds.py, with fewer examples")
@settings(max_examples=4000, deadline=None)
@given(steps=STEPS, records=RECORDS, topics=st.sampled_from(["a", "ab"]))
def test_thousands_of_changes_give_one_result(steps: list[Step], records: list[Record], topics: str) -> None:
    expect_one_result_for_each_change(steps, records, topics)


@pytest.mark.long("test_diamonds.py, with fewer examples")
@settings(max_examples=4000, deadline=None)
@given(steps=STEPS_THAT_WAIT, records=RECORDS, cuts=CUTS, crashes=CRASHES)
def test_thousands_of_batches_change_no_row(
    steps: list[Step], records: list[Record], cuts: set[int], crashes: dict[int, CrashStep]
) -> None:
    expect_the_same_for_all_cuts(steps, records, cuts, crashes)
