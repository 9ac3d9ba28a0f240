"""A record that an operator can't process is left out, whole, and the rest is as if it had never come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.errors import StorageError
from storekeeper.topology import (
    CrashStep,
    EmitStrategy,
    JoinWindows,
    Store,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    sessions,
    tumbling,
    until_limit,
    until_window_closes,
)
from storekeeper.topology.operators.process import ProcessorContext
from storekeeper.topology.times import TimeKind

MS = timedelta(milliseconds=1)
SITES = 7
"""Operators that fail on the records which carry their number."""
INSIDE = 8
"""The number of an operator behind a repartition."""


def failing(site: int) -> Callable[[Any, int], int]:
    def check(_: Any, value: int) -> int:
        if value // 100 == site:
            raise ValueError(value)
        return value

    return check


def unlucky(value: int) -> bool:
    return value % 4 == 3


class ProcessSupervisor:
    """Writes to a store, passes on, and then fails."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        self._store = context.store("kept")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        row = self._store.get(key) or 0
        self._store.put(key, row + value % 10)
        self._context.forward(key, row)
        if value // 100 == 5:
            self._context.dead_letter("not wanted")


def described(*, fails: bool, caching: bool) -> Topology:
    """A topology whose functions fail, or that filters out beforehand what they would fail on."""

    def released(stream: Any, topic: str) -> None:
        """A sink behind a function that fails on some of the rows which are let go."""
        if not fails:
            stream.filter(lambda _, value: value is not None and unlucky(value)).to(f"refused-{topic}", values=int)
            stream = stream.filter(lambda _, value: value is None or not unlucky(value))
        stream.filter(lambda _, value: value is None or not unlucky(value) or 1 // 0).to(topic, values=int)

    streams = StreamsBuilder("app")
    streams.add_store(Store("kept", int))
    one, two = streams.stream("one", int), streams.stream("two", int)
    sums = one.group_by_key().aggregate(lambda: 0, lambda total, value: total + value % 10, store=Store("sums", int))
    one.peek(failing(1)).to("first")
    one.outer_join(two, lambda left, right: (left or 0) + (right or 0), JoinWindows(5, 5, 5), values=int).to("joined")
    one.peek(failing(2)).to("second")
    windows = one.group_by_key().windowed_by(tumbling(10 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    released(windows.count(store="windows").to_stream(), "windows")
    one.map_values(lambda value: failing(3)(None, value), values=int).to("third")
    final = one.group_by_key().windowed_by(sessions(5 * MS)).count(store="sessions")
    released(final.suppress(until_window_closes(sessions(5 * MS))).to_stream(), "sessions")
    one.filter(lambda key, value: bool(failing(4)(key, value)) or True).to("fourth")
    one.process(ProcessSupervisor, stores=["kept"], values=int).to("kept")
    newest = one.to_table(store=Store("newest", int, history=50 * MS))
    released(two.left_join(newest, lambda left, right: left + (right or 0), grace=4 * MS, values=int), "as-of")
    released(sums.suppress(until_limit(7 * MS)).to_stream(), "sums")
    cached = one.to_table(store=Store("cached", int, caching=caching))
    released(cached.to_stream(), "cached") if caching else cached.to_stream().to("cached")
    inner = one if fails else one.filter(lambda _, value: value // 100 != INSIDE)
    inner.select_key(lambda _, value: str(value % 3)).group_by_key().aggregate(
        lambda: 0, lambda total, value: failing(INSIDE)(None, value) * 0 + total + 1, store=Store("inner", int)
    ).to_stream().to("inner")
    one.peek(failing(6)).peek(failing(7)).to("last")
    return streams.build()


SINKS = (
    "first", "joined", "second", "windows", "third", "sessions", "fourth", "kept", "as-of", "sums", "inner", "last",
)  # fmt: skip
RELEASED = ("windows", "sessions", "as-of", "sums")
ROWS = ("sums", "windows", "sessions", "newest", "kept", "cached", "inner")
Events = list[tuple[str, str, int, int]]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["one", "one", "two"]), st.sampled_from("abc"),
              st.integers(0, 9) | st.integers(100, 899), st.integers(1, 9)),
    max_size=30,
)  # fmt: skip
CUTS = st.lists(st.integers(1, 8), max_size=12)
CRASHES = st.dictionaries(st.integers(0, 8), st.tuples(st.sampled_from(CrashStep), st.integers(0, 4)), max_size=4)


def run(topology: Topology, events: Events, cuts: list[int], crashes: dict[int, tuple[CrashStep, int]]) -> Any:
    driver = TopologyTestDriver(topology)
    now_ms, waiting, ends = 0, 0, iter(cuts)
    end = next(ends, 1)
    for topic, key, value, after_ms in events:
        now_ms += after_ms
        driver.append(topic, key, value, now_ms)
        waiting += 1
        if waiting >= end:
            if end in crashes:
                step, batches_before = crashes[end]
                driver.crash_at(step, batches_before=batches_before)
            driver.run()
            waiting, end = 0, next(ends, 1)
    driver.run()
    return driver


def rows_of(driver: TopologyTestDriver, store: str) -> list[Any]:
    if store == "newest":
        return [(key, driver.store(store).get(key)) for key in "abc"]
    return driver.rows(store)


def is_poison(event: tuple[str, str, int, int]) -> bool:
    topic, _, value, _ = event
    return topic == "one" and 1 <= value // 100 <= SITES


def check_against_the_input_without_it(events: Events, cuts: list[int], crashes: Any) -> None:
    found = run(described(fails=True, caching=False), events, cuts, crashes)
    times = [after_ms for *_, after_ms in events]
    clean: Events = []
    for number, event in enumerate(events):
        if is_poison(event):
            times[number + 1 : number + 2] = [after + times[number] for after in times[number + 1 : number + 2]]
        else:
            clean.append((*event[:3], times[number]))
    wanted = run(described(fails=False, caching=False), clean, [], {})
    for topic in SINKS:
        assert found.read(topic) == wanted.read(topic), topic
    for store in ROWS:
        assert rows_of(found, store) == rows_of(wanted, store), store
    assert found.dropped.by_reason == wanted.dropped.by_reason
    letters = [letter.record for letter in found.dead_letters]
    poison = [number for number, event in enumerate(e for e in events if e[0] == "one") if is_poison(event)]
    at_once = [letter.record for letter in found.dead_letters if letter.record.topic == "one" and not letter.behind]
    assert [record.offset for record in at_once] == poison
    inside = [number for number, event in enumerate(e for e in events if e[0] == "one") if event[2] // 100 == INSIDE]
    behind = [letter.record for letter in found.dead_letters if letter.behind]
    assert sorted(record.offset for record in behind) == [number for number in inside if number not in poison]
    assert {record.topic for record in behind} <= {"one"}
    refused = [record.value for topic in RELEASED for record in wanted.read(f"refused-{topic}")]
    assert len([record for record in letters if not record.topic and record.value]) == len(refused)
    assert len(letters) == len(poison) + len(inside) + len(refused)


@settings(max_examples=100)
@given(events=EVENTS, cuts=CUTS, crashes=CRASHES)
def test_the_rest_is_as_if_bad_records_had_never_come(events: Events, cuts: list[int], crashes: Any) -> None:
    check_against_the_input_without_it(events, cuts, crashes)


@pytest.mark.long("test_the_rest_is_as_if_bad_records_had_never_come has a hundred of them")
@pytest.mark.parametrize("_part", range(8))  # each within the time of a test
@settings(max_examples=500)
@given(events=EVENTS, cuts=CUTS, crashes=CRASHES)
def test_thousands_of_inputs_with_bad_records(events: Events, cuts: list[int], crashes: Any, _part: int) -> None:
    check_against_the_input_without_it(events, cuts, crashes)


def merged_into_windows() -> TopologyTestDriver:
    """Two topics whose records are counted together by windows without grace, unless they are 13."""

    def not_17(_key: object, number: int | None, _timestamp_ms: int) -> None:
        if number == 17:
            raise ValueError(number)

    streams = StreamsBuilder("app")
    both = streams.stream("one", int, check=not_17).merge(streams.stream("two", int))
    both.map_values(lambda number: number if number != 13 else 1 // 0, values=int).group_by_key().windowed_by(
        tumbling(10 * MS)
    ).count(store=Store("windows", int, retention=1000 * MS))
    return TopologyTestDriver(streams.build())


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.sampled_from(["one", "two"]), st.integers(0, 6).map(lambda tens: 10 * tens),
                  st.sampled_from([b"1"] * 6 + [b"x", b"17", b"17", b"13"])),
        min_size=3, max_size=12,
    )
)  # fmt: skip
def test_a_record_that_is_left_out_holds_up_none_behind_it(events: list[tuple[str, int, bytes]]) -> None:
    found, wanted, good = merged_into_windows(), merged_into_windows(), 0
    for topic, time_ms, value in events:
        found.append_bytes(topic, b"k", value, time_ms)
        is_good = value == b"1" or (value == b"17" and topic == "two")
        good += is_good
        if is_good:
            wanted.append_bytes(topic, b"k", value, time_ms)
    found.run()
    wanted.run()
    assert found.rows("windows") == wanted.rows("windows")
    assert found.dropped.by_reason == wanted.dropped.by_reason
    assert len(found.dead_letters) == len(events) - good


def driver_of(describe: Callable[[StreamsBuilder], object], **options: Any) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    describe(streams)
    return TopologyTestDriver(streams.build(), **options)


def letters_of(driver: TopologyTestDriver) -> list[tuple[int, str, str]]:
    return [(letter.record.offset, letter.error_class, letter.operator) for letter in driver.dead_letters]


def test_a_dead_letter_names_the_operator_and_the_line_and_nothing_of_the_record() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.stream("in", str).map_values(lambda value: int(value), values=int, named="parsed").to("out")  # noqa: PLW0108

    driver = driver_of(describe)
    driver.pipe("in", "k", "4111-1111")
    (letter,) = driver.dead_letters
    assert (letter.error_class, letter.operator, letter.record.value) == ("ValueError", "parsed", b"4111-1111")
    assert letter.reason.startswith("ValueError at topology/test_careful_task.py:")
    assert letter.reason.endswith(" in <lambda>")


@pytest.mark.parametrize(
    "extract",
    [
        lambda _, value: value["at"] * 1.5,
        lambda _, value: value.get("none"),
        lambda _, value: str(value["at"]),
        lambda _, value: True,
        lambda _, value: -value["at"],
        lambda _, value: 1 << 63,
        lambda _, value: value["at"] * 10**15,
        lambda _, value: datetime(2024, 1, 1),  # noqa: DTZ001 (that is the point)
        lambda _, value: value["missing"],
    ],
)
def test_a_time_that_is_none_makes_a_dead_letter(extract: Any) -> None:
    driver = driver_of(lambda streams: streams.stream("in", dict, timestamps=extract).to_table(store="t"))
    driver.append("in", "k", {"at": 1000})
    driver.append("in", "k", {"at": 1000})
    driver.run()
    assert [offset for offset, _, operator in letters_of(driver) if operator == "in"] == [0, 1]
    assert driver.rows("t") == []


def test_a_time_may_be_a_datetime_with_a_zone() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.stream("in", int, timestamps=lambda _, value: datetime.fromtimestamp(value, UTC)).to("out")

    driver = driver_of(describe)
    driver.pipe("in", "k", 5, 1)
    assert [record.timestamp_ms for record in driver.read("out")] == [5000]


def test_a_null_value_is_a_dead_letter_where_the_type_has_none() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.stream("typed", int).map_values(str, values=str).to("out")
        streams.stream("nullable", int | None).map_values(str, values=str).to("out")
        streams.stream("passed", int).to("copies")
        rows = streams.table("rows", int, store="rows").to_stream()
        rows.map_values(str, values=str).to("out")
        streams.stream("both", int).to_table(store="both")
        streams.stream("both", int).map_values(str, values=str).to("out")
        streams.stream("counted", int).group_by_key().count(store="counts")

    driver = driver_of(describe)
    driver.pipe("both", "k", 1)
    for topic in ("typed", "nullable", "passed", "rows", "both", "counted"):
        driver.pipe(topic, "k", None)
    assert [letter.record.topic for letter in driver.dead_letters] == ["typed"]
    assert driver.dead_letters[0].error_class == "NullValueError"
    assert [record.value for record in driver.read("out")] == ["1", "None", "None", "None"]
    assert [record.value for record in driver.read("copies")] == [None]
    assert driver.rows("both") == []


def test_a_value_that_can_not_be_written_is_left_out() -> None:
    def add(total: int, value: int) -> Any:
        return "text" if value == 2 else total + value

    def value_of(value: int) -> Any:
        return object() if value == 3 else value

    def key_of(_: str, value: int) -> Any:
        return 5 if value == 4 else "k"

    def describe(streams: StreamsBuilder) -> None:
        numbers = streams.stream("in", int)
        numbers.group_by_key().aggregate(int, add, store="sum")
        numbers.map_values(value_of, values=int).to("out")
        numbers.select_key(key_of, keys=str).group_by_key().count(store="n")

    driver = driver_of(describe)
    for value in range(6):
        driver.append("in", "k", value)
    driver.run()
    assert [offset for offset, *_ in letters_of(driver)] == [2, 3, 4]
    assert driver.rows("sum") == [("k", 6)]
    assert driver.rows("n") == [("k", 3)]


@pytest.mark.parametrize("result", [None, 5, ("k",), ("a", "b", "c")])
def test_a_mapper_that_returns_no_pair_is_to_blame(result: Any) -> None:
    driver = driver_of(lambda streams: streams.stream("in", int).map(lambda key, value: result, values=int).to("out"))
    driver.pipe("in", "k", 1)
    assert [operator for *_, operator in letters_of(driver)] == ["in.map"]


def test_records_of_a_key_go_on_behind_a_bad_one() -> None:
    def describe(streams: StreamsBuilder) -> None:
        table = streams.table("in", int, store="in")
        grouped = table.group_by(lambda _, value: ("odd" if value % 2 else "even", 12 // value), values=int)
        grouped.reduce(lambda total, value: total + value, lambda total, value: total - value, store="sums")
        table.map_values(lambda value: 1 // (value - 3), values=int).to_stream().to("out")

    driver = driver_of(describe)
    for value in (1, 0, 3, 4):
        driver.pipe("in", "k", value)
    assert [offset for offset, *_ in letters_of(driver)] == [1, 2]
    assert driver.rows("in") == [("k", 4)]
    assert driver.rows("sums") == [("even", 3), ("odd", 0)]


def test_operators_and_apps_may_be_to_fail() -> None:
    def describe(streams: StreamsBuilder) -> None:
        numbers = streams.stream("in", int)
        with streams.on_error("fail"):
            numbers.map_values(lambda value: 1 // value, values=int).to("strict")
        numbers.map_values(lambda value: 1 // (value - 1), values=int).to("lenient")

    driver = driver_of(describe)
    driver.pipe("in", "k", 1)
    assert [operator for *_, operator in letters_of(driver)] == ["in.map-values-2"]
    with pytest.raises(ZeroDivisionError) as raised:
        driver.pipe("in", "k", 0)
    assert raised.value.__notes__[-2:] == ["in operator in.map-values", "while in[0]@1 was processed"]
    driver = driver_of(describe, on_error="fail")
    with pytest.raises(ZeroDivisionError):
        driver.pipe("in", "k", 1)


@pytest.mark.parametrize("error", [OSError, MemoryError, StorageError("disk"), ConnectionError])
def test_what_is_not_the_records_fails_the_batch(error: Any) -> None:
    def fail(_: int) -> int:
        raise error

    driver = driver_of(lambda streams: streams.stream("in", int).map_values(fail).to("out"))
    with pytest.raises(error if isinstance(error, type) else type(error)):
        driver.pipe("in", "k", 1)
    assert driver.dead_letters == []


class Ticking:
    """A timer that passes on what it has kept, and fails itself for 5."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        self._kept = context.store("kept")
        context.schedule(10, TimeKind.STREAM_TIME, self.tick)

    def process(self, key: str, value: int, _: int) -> None:
        self._kept.put(key, value)

    def tick(self, _: int) -> None:
        for key, value in list(self._kept.all()):
            if value == 5:
                raise ValueError
            self._kept.delete(key)
            self._context.forward(key, value)


def test_what_a_timer_passes_on_is_left_out_and_a_timer_that_fails_fails_the_batch() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.add_store(Store("kept", int))
        passed = streams.stream("in", int).process(Ticking, stores=["kept"], values=int)
        passed.map_values(lambda value: 1 // value, values=int).to("out")

    driver = driver_of(describe)
    for number, value in enumerate((1, 0, 2, 7)):
        driver.pipe("in", f"k{number}", value, number * 10)
    assert [(letter.record.topic, letter.record.key, letter.record.value) for letter in driver.dead_letters] == [
        ("", b"k1", b"0")
    ]
    assert len(driver.read("out")) == 3
    with pytest.raises(ValueError, match=r"in operator in\.process"):
        driver.pipe("in", "x", 5, 100)


def test_a_cached_row_that_fails_when_it_is_let_go_is_left_out_once() -> None:
    def describe(streams: StreamsBuilder) -> None:
        rows = streams.table("in", int, store=Store("in", int, caching=True))
        rows.to_stream().filter(lambda _, value: value != 3 or 1 // 0 == 0).to("out")

    driver = driver_of(describe)
    for number in range(6):
        driver.append("in", f"k{number}", number)
    driver.run()
    (letter,) = driver.dead_letters
    assert (letter.record.key, letter.record.value, letter.operator) == (b"k3", b"3", "in.table.to-stream.filter")
    assert letter.reason.endswith("the row had waited in in.table")
    assert [record.value for record in driver.read("out")] == [0, 1, 2, 4, 5]
    assert len(driver.rows("in")) == 6


def test_operators_that_keep_nothing_fail_before_and_behind_others() -> None:
    def describe(streams: StreamsBuilder) -> None:
        good = streams.stream("in", int).filter(lambda _, value: value != 3 or 1 // 0 == 0)
        split = good.map_values(lambda value: 12 // value, values=int).split()
        split.branch(lambda _, value: value % 2 == 0).map_values(lambda value: 1 // (value - 4), values=int).to("even")
        split.default().group_by_key().count(store="n")
        good.flat_map_values(lambda value: [value, 12 // (value - 5)], values=int).filter(
            lambda _, value: value != -2 or 1 // 0 == 0
        ).to("out")

    driver = driver_of(describe)
    for value in (0, 1, 2, 3, 4, 0):
        driver.append("in", "k", value)
    driver.run()
    assert [offset for offset, *_ in letters_of(driver)] == [0, 3, 5]
    for value in (5, -1, 6):  # the second branch fails: the first has taken the record
        driver.append("in", "k", value)
    driver.run()
    assert [operator for *_, operator in letters_of(driver)][3:] == [
        "in.filter.flat-map-values", "in.filter.flat-map-values.filter",
    ]  # fmt: skip
    assert [record.value for record in driver.read("out")] == [1, -3, 2, -4, 4, -12, 6, 12]


class Rejecting:
    """Passes a record on, and then sends the odd ones to the dead letters."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context

    def process(self, key: str, value: int, _: int) -> None:
        self._context.forward(key, value)
        if value % 2:
            self._context.dead_letter("it is odd")


def test_a_processor_sends_its_record_to_the_dead_letters() -> None:
    driver = driver_of(
        lambda streams: streams.stream("in", int).process(Rejecting, values=int).to("out"), on_error="fail"
    )
    for value in range(4):
        driver.append("in", "k", value)
    driver.run()
    assert [(letter.record.value, letter.reason) for letter in driver.dead_letters] == [
        (b"1", "it is odd"), (b"3", "it is odd"),
    ]  # fmt: skip
    assert [record.value for record in driver.read("out")] == [0, 2]
