"""Inputs that meet have keys and values of one type, as far as it is known where they are described."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest

from storekeeper.apps.records import KeySerde
from storekeeper.errors import ConfigurationError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import Int64Serde
from storekeeper.topology import (
    EmitStrategy,
    JoinWindows,
    KStream,
    Store,
    StoreKind,
    StreamsBuilder,
    TopologyTestDriver,
    hopping,
    sessions,
    sliding,
    tumbling,
    until_limit,
)

MINUTE = timedelta(minutes=1)
pair: Any = lambda left, right: (left, right)  # noqa: E731


class Song(msgspec.Struct, frozen=True, tag=True):
    id: int


class Album(msgspec.Struct, frozen=True, tag=True):
    id: int


class Untagged(msgspec.Struct, frozen=True):
    id: int


OTHER_KEYS = [
    (str, int),
    (str, bytes),
    (int, float),
    (int, Int64Serde()),
    (Song, Album),
    (KeySerde(), int),
    (KeySerde(), bytes),
    (dict, list),
]
SAME_KEYS = [
    (str, KeySerde()),
    (int, Annotated[int, msgspec.Meta(ge=0)]),
    (Song, Song),
    (Int64Serde(), Int64Serde()),
    (dict, dict[str, int]),
    (JsonSerde(), dict),
]
MEET: dict[str, Callable[[StreamsBuilder, Any, Any], object]] = {
    "merge": lambda s, one, two: s.stream("a", int, keys=one).merge(s.stream("b", int, keys=two)),
    "stream join": lambda s, one, two: s.stream("a", int, keys=one).join(
        s.stream("b", int, keys=two), pair, JoinWindows.of(MINUTE)
    ),
    "table join": lambda s, one, two: s.stream("a", int, keys=one).left_join(s.table("b", int, keys=two), pair),
    "join of tables": lambda s, one, two: s.table("a", int, keys=one).join(s.table("b", int, keys=two), pair),
    "cogroup": lambda s, one, two: (
        s.stream("a", int, keys=one).group_by_key().cogroup(pair).cogroup(
            s.stream("b", int, keys=two).group_by_key(), pair)
    ),
}  # fmt: skip


@pytest.mark.parametrize("meet", MEET)
def test_keys_that_meet(meet: str) -> None:
    for one, two in OTHER_KEYS:
        for left, right in ((one, two), (two, one)):
            with pytest.raises(ConfigurationError, match="keys on its two sides differ"):
                MEET[meet](StreamsBuilder("app"), left, right)
    for one, two in SAME_KEYS:
        for left, right in ((one, two), (two, one)):
            MEET[meet](StreamsBuilder("app"), left, right)


def test_windows_meet_windows_only() -> None:
    streams = StreamsBuilder("app")
    groups = streams.stream("a", int).group_by_key()
    counts, windows = groups.count(), groups.windowed_by(tumbling(MINUTE)).count()
    windows.join(groups.windowed_by(tumbling(MINUTE)).reduce(lambda one, _: one), pair)
    windows.to_stream().join(windows, pair)
    for refused in (lambda: counts.join(windows, pair), lambda: counts.to_stream().join(windows, pair)):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="windows of str"):
            refused()


def test_merged_values() -> None:
    streams = StreamsBuilder("app")
    numbers, texts = streams.stream("a", int), streams.stream("b", str)
    songs, either = streams.stream("songs", Song), streams.stream("either", Song | Album)
    for one, two in ((numbers, texts), (texts, numbers), (songs, texts), (songs, streams.stream("albums", Album))):
        with pytest.raises(ConfigurationError, match="map them to one type"):
            one.merge(two)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="int and str"):
        numbers.merge(numbers.map_values(lambda value: value), texts)  # type: ignore[arg-type]
    for merged in (songs.merge(either), either.merge(songs)):
        assert getattr(merged.serdes.values, "type", None) == Song | Album
    numbers.map_values(str).merge(texts)
    streams.stream("any", JsonSerde()).merge(numbers)


def test_what_a_topic_gets() -> None:
    streams = StreamsBuilder("app")
    numbers = streams.stream("a", int)
    numbers.to("floats", values=float)  # type: ignore[arg-type]
    numbers.to("keys", keys=KeySerde())
    numbers.to("json", values=JsonSerde())
    with pytest.raises(ConfigurationError, match="values are int where str as text is wanted"):
        numbers.to("b", values=str)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="keys are str as text where int is wanted"):
        numbers.to("b", keys=int)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="can't be a name"):
        numbers.to("no topic")


def number(key: str, value: int) -> int:
    return value


def number_or_none(key: str, value: int) -> int | None:
    return value or None


def numbered(key: str, value: int) -> tuple[int, Decimal]:
    return value, Decimal(value)


def numbers(key: str, value: int) -> Iterator[tuple[int, Decimal]]:
    yield value, Decimal(value)


class Other(msgspec.Struct, frozen=True):
    id: int


def untold(key: str, value: int) -> Untagged | Other:
    return Other(value)


def other_type(value: int) -> str:
    return str(value)


def test_keys_are_of_the_type_that_a_function_is_annotated_to_make() -> None:
    streams = StreamsBuilder("app")
    stream = streams.stream("in", int)
    made: list[KStream[Any, Any]] = [
        stream.select_key(number),
        stream.select_key(number_or_none),
        stream.map(numbered),
        stream.flat_map(numbers),
    ]
    for each in made:
        assert each.serdes.keys is not None
        assert each.serdes.keys.serialize(5) == b"5"
        each.group_by_key().count()
    for each in made[2:]:
        assert each.serdes.values is not None
        assert each.serdes.values.serialize(Decimal("1.50")) == b"1.50"
    table = streams.table("rows", int, store="rows").group_by(numbered).count(store="n")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("rows", "a", 7)
    assert driver.rows("n") == [(7, 1)]
    assert table.serdes.keys is not None
    assert stream.select_key(lambda _, value: value).serdes.keys.serialize("a") == b"a"  # type: ignore[union-attr]


def test_keys_of_another_type_than_annotated() -> None:
    stream = StreamsBuilder("app").stream("in", int)
    with pytest.raises(ConfigurationError, match=r"in\.select-key: the keys are int where str as text"):
        stream.select_key(number, keys=str)  # type: ignore[arg-type]
    stream.select_key(number, keys=Int64Serde())
    for refused in (lambda: stream.select_key(untold), lambda: stream.group_by(untold)):
        with pytest.raises(ConfigurationError, match=r"in\.select-key-?\d*: keys can't be of type .* pass keys="):
            refused()
    with pytest.raises(ConfigurationError, match="pass keys="):
        stream.select_key(lambda _, value: value, keys=Untagged | Other)  # type: ignore[arg-type, return-value]


def test_keys_that_a_function_looks_up() -> None:
    streams = StreamsBuilder("app")
    stream, everywhere = streams.stream("in", int), streams.global_table("g", int)
    table = streams.table("t", int, store="t")
    stream.join(everywhere, pair, on=lambda _, value: str(value))
    with pytest.raises(ConfigurationError, match="on gives keys of int where str"):
        stream.join(everywhere, pair, on=number)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="foreign_key gives keys of str as text where int"):
        table.foreign_key_join(streams.table("u", int, keys=int, store="u"), other_type, pair, values=list)  # type: ignore[arg-type]


def test_options_of_joins() -> None:
    streams = StreamsBuilder("app")
    stream, table, everywhere = streams.stream("in", int), streams.table("t", int), streams.global_table("g", int)
    join: Any = stream.join
    within = JoinWindows.of(MINUTE)
    for call, why in (
        (lambda: join(everywhere, pair), "pass on="),
        (lambda: join(everywhere, pair, within, on=pair), "windows="),
        (lambda: join(table, pair, within), "windows="),
        (lambda: join(table, pair, on=pair), "on="),
        (lambda: join(table, pair, store=Store("x")), "store="),
        (lambda: join(stream, pair), "windows="),
        (lambda: join(stream, pair, MINUTE), "JoinWindows"),
        (lambda: join(stream, pair, within, grace=MINUTE), "grace="),
        (lambda: join(stream, pair, within, valuse=int), "valuse="),
        (lambda: join("topic", pair), "a stream, a table or a global table"),
        (lambda: table.join(stream, pair), "a table"),  # type: ignore[arg-type]
        (lambda: stream.merge(table), "streams"),  # type: ignore[arg-type]
        (lambda: stream.outer_join(table, pair, within), "a stream"),  # type: ignore[arg-type]
        (lambda: table.suppress(MINUTE), "until_limit"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError, match=why):
            call()


def test_two_builders_never_meet() -> None:
    one, two = StreamsBuilder("app").stream("in", int), StreamsBuilder("app").stream("other", int)
    with pytest.raises(ConfigurationError, match="another StreamsBuilder"):
        one.merge(two)
    with pytest.raises(ConfigurationError, match="another StreamsBuilder"):
        one.join(StreamsBuilder("app").global_table("g", int), pair, on=lambda key, _: key)


def test_an_aggregate_without_a_type_names_the_way_on() -> None:
    stream = StreamsBuilder("app").stream("in", int)
    with pytest.raises(ConfigurationError, match=r"store=Store\('c', int\)"):
        stream.group_by_key().aggregate(lambda: 0, lambda total, value: total + value, store="c")
    table = StreamsBuilder("app").table("in", int, store="t").group_by(lambda key, value: (key, value), values=int)
    with pytest.raises(ConfigurationError, match=r"store=Store\('c', int\)"):
        table.aggregate(lambda: 0, lambda total, value: total, lambda total, value: total, store="c")


def joined_with_grace(grace: Any) -> object:
    streams = StreamsBuilder("app")
    table = streams.table("t", int, store=Store("t", history=MINUTE))
    return streams.stream("in", int).join(table, pair, grace=grace)


NUMBERS: list[Callable[[Any], object]] = [
    tumbling,
    sliding,
    sessions,
    until_limit,
    JoinWindows.of,
    lambda n: tumbling(MINUTE, grace=n),
    lambda n: sliding(MINUTE, grace=n),
    lambda n: sessions(MINUTE, grace=n),
    lambda n: hopping(n, advance=MINUTE),
    lambda n: hopping(MINUTE, advance=n),
    lambda n: JoinWindows.of(MINUTE, grace=n),
    lambda n: JoinWindows.between(before=n, after=MINUTE),
    lambda n: JoinWindows.between(before=MINUTE, after=n),
    lambda n: JoinWindows.looking_back(before=MINUTE, after=MINUTE, grace=n),
    lambda n: Store("s", retention=n),
    lambda n: Store("s", history=n),
    lambda n: Store("s", ttl=n),
    joined_with_grace,
]


@pytest.mark.parametrize("takes_time", NUMBERS)
@pytest.mark.parametrize("number", [60_000, 0.5, 0, "1m"])
def test_numbers_are_no_times(takes_time: Callable[[Any], object], number: Any) -> None:
    takes_time(MINUTE)
    with pytest.raises(ConfigurationError, match="timedelta"):
        takes_time(number)


def test_options_as_text() -> None:
    streams = StreamsBuilder("app")
    groups = streams.stream("in", int).group_by_key()
    emits: Any = "close"
    kind: Any = "window"
    assert Store("s", kind=kind).kind is StoreKind.WINDOW
    windowed = groups.windowed_by(tumbling(MINUTE), emit=emits)
    windowed.count()
    with pytest.raises(ConfigurationError, match="EmitStrategy"):
        groups.windowed_by(tumbling(MINUTE), emit="final")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="tumbling"):
        groups.windowed_by(MINUTE)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="store= takes"):
        groups.count(store=5)  # type: ignore[arg-type]
    assert EmitStrategy(emits) is EmitStrategy.ON_WINDOW_CLOSE


@pytest.mark.parametrize("type_", [int | None, Annotated[int, msgspec.Meta(ge=0)] | None])
def test_a_store_may_say_that_a_row_may_be_missing(type_: Any) -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int | None, store=Store("rows", type_))
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "k", 1)
    driver.pipe("in", "k", None)
    assert driver.rows("rows") == []


@pytest.mark.parametrize("type_", [[int], {"a": int}, 5, "int"])
def test_what_is_no_type_is_refused(type_: Any) -> None:
    with pytest.raises(ConfigurationError, match="have no JSON form"):
        StreamsBuilder("app").stream("in", type_)
