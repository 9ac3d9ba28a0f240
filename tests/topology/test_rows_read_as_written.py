"""What a batch sees of a row is what the next batch will see: results don't depend on where batches are cut."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.serdes.json import JsonSerde
from storekeeper.topology import (
    Store,
    StoreKind,
    StreamsBuilder,
    TopologyTestDriver,
    hopping,
    sessions,
    tumbling,
    until_limit,
)
from storekeeper.topology.operators.process import ProcessorContext

Describe = Callable[[StreamsBuilder], None]


def driver_of(describe: Describe, records: list[tuple[Any, ...]], cut: int) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    describe(streams)
    driver = TopologyTestDriver(streams.build())
    for at in range(0, len(records), cut):
        for record in records[at : at + cut]:
            driver.append(*record)
        driver.run()
    return driver


class Colour(enum.StrEnum):
    RED = "red"


class Total(msgspec.Struct):
    region: str = "r"
    total: float = 0
    names: set[str] = msgspec.field(default_factory=set)


class Hours(msgspec.Struct):
    by_hour: dict[int, int] = {}


@pytest.mark.parametrize(
    "wrong",
    [
        {9: 1}, {"a": (1, 2)}, {"a": dt.date(2026, 1, 1)}, {"a": Decimal("1.0")}, {"a": Colour.RED}, {"a": UUID(int=1)},
        {"a": {1}}, 5, "text", [1],
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("cut", [1, 4])
def test_a_row_that_would_read_otherwise_is_refused_by_name_whatever_follows_in_its_batch(wrong: Any, cut: int) -> None:
    def describe(streams: StreamsBuilder) -> None:
        values = streams.stream("s", int).group_by_key()
        # The row is right again at the end of a batch of four.
        values.aggregate(dict, lambda _, value: wrong if value == 1 else {"n": value}, store=Store("h", dict))

    driver = driver_of(describe, [("s", "k", value, value) for value in range(4)], cut)
    assert [letter.record.offset for letter in driver.dead_letters] == [1]
    assert driver.dead_letters[0].reason.startswith("store h, key 'k': ")
    assert driver.rows("h") == [("k", {"n": 3})]


def test_a_declared_dict_of_numbers_counts_on() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.stream("s", int).group_by_key().aggregate(
            Hours, lambda row, hour: Hours({**row.by_hour, hour: row.by_hour.get(hour, 0) + 1}), store=Store("h", Hours)
        )

    records = [("s", "k", 9, at) for at in range(4)]
    for cut in (1, 2, 4):
        assert driver_of(describe, records, cut).rows("h") == [("k", Hours({9: 4}))]


def test_a_value_goes_on_downstream_as_it_will_be_read() -> None:
    def describe(streams: StreamsBuilder) -> None:
        sales = streams.stream("s", int).group_by_key()
        totals = sales.aggregate(Total, lambda t, v: Total("r", t.total + v), store=Store("t", Total))
        totals.to_stream().map_values(lambda row: str(row.total), values=str).to("o")
        windows = sales.windowed_by(tumbling(timedelta(seconds=1)))
        windows.aggregate(Total, lambda t, v: Total("r", t.total + v), store=Store("w", Total)).to_stream().map(
            lambda window, row: (window.key, str(row.total)), values=str
        ).to("p")
        groups = totals.group_by(lambda _, row: (str(row.total), 1), values=int)
        groups.reduce(lambda a, v: a + v, lambda a, v: a - v, store=Store("g", int))

    records = [("s", "k", value, value) for value in (5, 6, 7)]
    for cut in (1, 3):
        driver = driver_of(describe, records, cut)
        assert [value for _, value, _ in driver.read("o")] == ["5.0", "11.0", "18.0"]
        assert [value for _, value, _ in driver.read("p")] == ["5.0", "11.0", "18.0"]
        assert [row for row in driver.rows("g") if row[1]] == [("18.0", 1)]


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_foreign_key_join_finds_rows_that_read_in_another_form(cut: int) -> None:
    def describe(streams: StreamsBuilder) -> None:
        totals = (
            streams.stream("sales", int)
            .group_by_key()
            .aggregate(
                Total, lambda t, v: Total("r", t.total + v, {*t.names, f"{v}", "a", "b"}), store=Store("t", Total)
            )
        )
        totals.foreign_key_join(
            streams.table("regions", str, store="n"), lambda t: t.region, lambda t, n: [t.total, n], values=list,
            store=Store("j", list),
        )  # fmt: skip

    records = [("regions", "r", "north", 1), ("sales", "k", 5, 2), ("sales", "k", 6, 2), ("regions", "r", "n", 3)]
    assert driver_of(describe, records, cut).rows("j") == [("k", [11.0, "n"])]


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.00"), ("0", "-0.0"), ("1E+2", "100")])
@pytest.mark.parametrize("kind", [Decimal, float])
@pytest.mark.parametrize("cut", [1, 3])
def test_a_group_whose_key_is_written_otherwise_is_the_same_group(one: str, other: str, kind: Any, cut: int) -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.table("t", str, store="t").group_by(lambda _, v: (kind(v), 1), keys=kind, values=int).count(store="n")

    records = [("t", "a", one, 1), ("t", "a", other, 2)]
    assert driver_of(describe, records, cut).rows("n") == [(kind(one), 1)]
    assert driver_of(describe, [*records, ("t", "a", None, 3)], cut).rows("n") == [(kind(one), 0)]


@pytest.mark.parametrize("cut", [1, 4])
def test_keys_that_are_equal_in_python_alone_are_kept_apart(cut: int) -> None:
    def describe(streams: StreamsBuilder) -> None:
        keyed = streams.stream("s", JsonSerde()).group_by(lambda _, value: value, keys=JsonSerde())
        keyed.count(store=Store("n", int, caching=True)).to_stream().to("o")
        keyed.windowed_by(sessions(timedelta(milliseconds=1))).count(store=Store("w", int)).suppress(
            until_limit(timedelta(milliseconds=5))
        ).to_stream().to("p")

    records = [("s", "x", value, 1) for value in (1, 1.0, [1], [1.0])]
    driver = driver_of(describe, [*records, ("s", "x", "last", 1000)], cut)
    assert [value for _, value in driver.rows("n")] == [1] * 5
    assert len(driver.read("o")) == 5
    assert len(driver.read("p")) == 4


def test_structs_that_have_no_hash_may_be_keys_of_cached_tables() -> None:
    class Song(msgspec.Struct):
        id: int

    def describe(streams: StreamsBuilder) -> None:
        keyed = streams.stream("s", int).group_by(lambda _, value: Song(value), keys=Song)
        keyed.count(store=Store("n", int, caching=True)).to_stream().to("o")

    driver = driver_of(describe, [("s", "x", 1, 1), ("s", "x", 1, 2)], 2)
    assert driver.read("o") == [(Song(1), 2, 2)]


@pytest.mark.parametrize("kind", [StoreKind.KEY_VALUE, StoreKind.TTL, StoreKind.VERSIONED, StoreKind.WINDOW])
def test_a_processor_is_refused_what_its_store_could_not_read(kind: StoreKind) -> None:
    class Put:
        def init(self, context: ProcessorContext[str, Any]) -> None:
            self._store = context.store("st")

        def process(self, key: str, value: int, timestamp_ms: int) -> None:
            arguments = (key, {value: 1}) if kind is StoreKind.KEY_VALUE else (key, {value: 1}, timestamp_ms)
            self._store.put(*arguments)

    def describe(streams: StreamsBuilder) -> None:
        options = {StoreKind.TTL: "ttl", StoreKind.VERSIONED: "history", StoreKind.WINDOW: "retention"}
        times: dict[str, Any] = {options[kind]: timedelta(1)} if kind in options else {}
        streams.add_store(Store("st", dict, kind=kind, **times))
        streams.stream("s", int).process(Put, stores=["st"])

    (letter,) = driver_of(describe, [("s", "k", 1, 1)], 1).dead_letters
    assert "an int would come back as a str" in letter.reason


def test_sinks_and_topics_between_are_refused_what_they_could_not_read() -> None:
    def sink(streams: StreamsBuilder) -> None:
        streams.stream("s", int).map_values(lambda value: {value: 1}, values=dict).to("o")

    def between(streams: StreamsBuilder) -> None:
        wrong: Any = lambda _, value: (str(value), "x")  # noqa: E731
        streams.stream("s", int).map(wrong, values=int).group_by_key().count()

    for describe in (sink, between):
        (letter,) = driver_of(describe, [("s", "k", 1, 1)], 1).dead_letters
        assert "read back" in letter.reason


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_joined_row_leaves_the_group_that_it_came_into(cut: int) -> None:
    def describe(streams: StreamsBuilder) -> None:
        one, other = streams.table("one", int, store="one"), streams.table("other", int, store="other")
        joined = one.join(other, lambda left, right: left + right, values=float, store=Store("j", float))
        joined.group_by(lambda _, value: (str(value), 1), values=int).count(store="g")
        both = one.join(one.map_values(lambda value: value, values=int), lambda left, right: left + right, values=float,
                        store=Store("m", float))  # fmt: skip
        both.group_by(lambda _, value: (str(value), 1), values=int).count(store="h")

    records = [("one", "k", 1, 1), ("other", "k", 2, 2), ("one", "k", 3, 3), ("other", "k", 4, 4), ("one", "k", 5, 5)]
    driver = driver_of(describe, records, cut)
    assert [row for row in driver.rows("g") if row[1]] == [("9.0", 1)]
    assert [row for row in driver.rows("h") if row[1]] == [("10.0", 1)]


def test_structs_that_have_no_hash_may_be_keys_of_a_table_joined_with_itself() -> None:
    class Song(msgspec.Struct):
        id: int

    def describe(streams: StreamsBuilder) -> None:
        songs = streams.table("s", int, keys=Song, store="s")
        songs.join(
            songs.map_values(lambda value: value, values=int), lambda left, right: left + right, values=int
        ).to_stream().to("o")

    assert driver_of(describe, [("s", Song(1), 1, 1), ("s", Song(1), 2, 2)], 2).read("o") == [
        (Song(1), 2, 1),
        (Song(1), 4, 2),
    ]


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(-2, 2), st.floats(), st.text(max_size=2),
    st.decimals(-2, 2, places=1), st.dates(), st.uuids(), st.just(Colour.RED),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.lists(inner, max_size=2).map(tuple)
    | st.dictionaries(st.text(max_size=1) | st.integers(0, 2), inner, max_size=2)
    | st.frozensets(st.integers(0, 3) | st.text(max_size=1), max_size=2),
    max_leaves=4,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
NUMBERS = st.integers(-3, 3) | st.floats(-2, 2)
TYPES: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    dict: st.dictionaries(st.text(max_size=1), JSON, max_size=3),
    list: st.lists(JSON, max_size=3),
    list[float]: st.lists(NUMBERS, max_size=3),
    list[Any] | None: st.none() | st.lists(JSON, max_size=3),
    dict[int, Any]: st.dictionaries(st.integers(0, 3), JSON, max_size=3),
    dict[str, float]: st.dictionaries(st.text(max_size=1), NUMBERS, max_size=3),
    set[str]: st.sets(st.text(max_size=2), max_size=4),
    tuple[Any, ...]: st.lists(JSON, max_size=3).map(tuple),
    list[Decimal]: st.lists(st.decimals(-2, 2, places=1) | st.integers(0, 2), max_size=3),
    dict[float, Any]: st.dictionaries(NUMBERS, JSON, max_size=3),
    Decimal | None: st.none() | st.decimals(-2, 2, places=1) | st.integers(-2, 2),
    float: NUMBERS,
    list[dt.date]: st.lists(st.dates(), max_size=2),
}


def topology(type_: Any, made: list[Any]) -> Describe:
    """Each record's value is the place of what its row becomes: a part of what an adder may return."""

    def wrapped(row: Any, place: int) -> Any:
        value = made[place]
        if isinstance(row, dict) and isinstance(value, dict):
            return {**row, **value}
        return [*row, *value] if isinstance(row, list) and isinstance(value, list) else value

    def shown(value: Any) -> str:
        return "" if value is None else repr(sorted(value, key=repr) if isinstance(value, set) else value)

    def describe(streams: StreamsBuilder) -> None:
        source = streams.stream("s", int)
        table = source.group_by_key().aggregate(lambda: None, wrapped, store=Store("t", type_))
        table.to_stream().map_values(shown, values=str).to("o")
        table.group_by(lambda _, row: (shown(row), 1), values=int).count(store="g")
        table.foreign_key_join(
            streams.table("r", str, store="r"), lambda _: "one", lambda row, name: shown(row) + name, values=str,
            store=Store("j", str),
        )  # fmt: skip
        source.group_by_key().windowed_by(
            hopping(timedelta(milliseconds=4), advance=timedelta(milliseconds=2))
        ).aggregate(lambda: None, wrapped, store=Store("w", type_)).suppress(
            until_limit(timedelta(milliseconds=3))
        ).to_stream().map(lambda window, row: (window.key, shown(row)), values=str).to("p")

    return describe


def outcome(type_: Any, made: list[Any], records: list[tuple[Any, ...]], cut: int) -> Any:
    driver = driver_of(topology(type_, made), records, cut)
    left_out = sorted(letter.record.offset for letter in driver.dead_letters)
    tables = [repr(driver.rows(store)) for store in ("g", "j")]
    return left_out, tables, sorted(driver.read("o")), sorted(driver.read("p"))


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A type of rows, and values that rows become: mostly of that type."""
    type_, values = draw(st.sampled_from(list(TYPES.items())))
    return type_, draw(st.lists(VALUES if draw(st.integers(0, 5)) == 0 else values, min_size=1, max_size=3))


@given(
    typed_rows(), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=6),
    st.integers(2, 7),
)  # fmt: skip
def test_results_do_not_depend_on_the_cuts(
    typed: tuple[Any, list[Any]], changes: list[tuple[str, int]], cut: int
) -> None:
    type_, made = typed
    records: list[tuple[Any, ...]] = [("r", "one", "1", 0)]
    records += [("s", key, place % len(made), at) for at, (key, place) in enumerate(changes)]
    assert outcome(type_, made, records, cut) == outcome(type_, made, records, 1)


@pytest.mark.long("test_results_do_not_depend_on_the_cuts, with fewer cases")
def test_many_results_do_not_depend_on_the_cuts() -> None:
    settings(max_examples=3000)(test_results_do_not_depend_on_the_cuts)()
