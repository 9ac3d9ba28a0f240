"""What a topology says about its stores."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.serdes.serde import Int64Serde
from storekeeper.topology import (
    JoinWindows,
    ProcessorContext,
    Store,
    StoreKind,
    StreamsBuilder,
    TopologyTestDriver,
    tumbling,
    until_limit,
    until_window_closes,
)


class Score(msgspec.Struct, frozen=True, rename="pascal"):
    high_score: int = 0


def high(score: Score, value: int) -> Score:
    return Score(max(score.high_score, value))


def test_options_reach_the_engine_as_they_were_given() -> None:
    streams = StreamsBuilder("app")
    store = Store(
        "scores", Score, ranked_by="HighScore", everywhere=True, changelog="scores-changes", bounded=True
    )  # fmt: skip
    streams.stream("in", int).group_by_key().aggregate(Score, high, store=store)
    (spec,) = [spec for sub in streams.build().sub_topologies for spec in sub.stores]
    options = spec.options
    assert (options.ranked_by, options.everywhere, options.changelog, options.bounded) == (
        *("HighScore", True, "scores-changes", True),
    )


def test_a_store_is_ranked_by_a_field_that_it_has() -> None:
    streams = StreamsBuilder("app")
    with pytest.raises(ConfigurationError, match="high_score"):
        streams.stream("in", int).group_by_key().aggregate(
            Score, high, store=Store("scores", Score, ranked_by="high_score")
        )
    with pytest.raises(ConfigurationError, match="not a field"):
        streams.stream("in", int).group_by_key().count(store=Store("counts", int, ranked_by="HighScore"))


def test_windows_are_not_ranked() -> None:
    windows = StreamsBuilder("app").stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="can't be ranked"):
        windows.aggregate(Score, high, store=Store("scores", Score, ranked_by="HighScore"))


def test_only_rows_by_key_are_everywhere() -> None:
    streams = StreamsBuilder("app")
    windows = streams.stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="store counts: rows of kind window can't be everywhere"):
        windows.count(store=Store("counts", int, everywhere=True))
    with pytest.raises(ConfigurationError, match="store versions: rows of kind versioned can't be everywhere"):
        streams.table("table", int, store=Store("versions", int, history=timedelta(hours=1), everywhere=True))


def test_a_changelog_has_the_name_of_a_topic() -> None:
    with pytest.raises(InvalidNameError):
        Store("scores", Score, changelog="no topic")


@pytest.mark.parametrize("option", ["ttl", "history", "retention"])
def test_a_time_that_rows_of_a_kind_do_not_know_is_refused(option: str) -> None:
    def store(name: str) -> Store[Any]:
        return Store(name, int, **{option: timedelta(hours=1)})  # type: ignore[arg-type]

    stream = StreamsBuilder("app").stream("in", int)
    windows = stream.group_by_key().windowed_by(tumbling(timedelta(minutes=1)))
    places: dict[str, tuple[set[str], Callable[[Store[Any]], object]]] = {
        "rows": ({"ttl", "history", "retention"}, lambda options: stream.group_by_key().count(store=options)),
        "table": ({"ttl", "retention"}, lambda options: stream.to_table(store=options)),
        "windows": ({"ttl", "history"}, lambda options: windows.count(store=options)),
    }
    for name, (refused, count) in places.items():
        if option in refused:
            with pytest.raises(ConfigurationError, match=f"store {name}: {option}= has no meaning"):
                count(store(name))
        else:
            count(store(name))


def test_operators_choose_the_kind_of_their_stores() -> None:
    stream = StreamsBuilder("app").stream("in", int)
    stream.to_table(store=Store("v", int, kind=StoreKind.VERSIONED, history=timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="rows of kind key_value, not ttl"):
        stream.group_by_key().count(store=Store("n", int, kind=StoreKind.TTL))


def test_a_stores_keys_and_values_are_those_of_its_operator() -> None:
    streams = StreamsBuilder("app")
    groups = streams.stream("in", int).group_by_key()
    windows: Any = groups.windowed_by(tumbling(timedelta(minutes=1)))
    for number, count in enumerate((groups.count, windows.count)):
        count(store=Store(f"text-{number}", int, keys=str))
        count(store=Store(f"floats-{number}", float))
        for keys in (int, bytes, Int64Serde()):
            with pytest.raises(ConfigurationError, match="store n: the keys on its two sides differ"):
                count(store=Store("n", int, keys=keys))
        with pytest.raises(ConfigurationError, match="values are int where str"):
            count(store=Store("n", str))
    with pytest.raises(ConfigurationError, match="store n: the values are int where str"):
        streams.table("rows", int, store=Store("n", str))  # type: ignore[misc]
    groups.aggregate(int, lambda total, value: total + value / 2, store=Store("halves", float))


@pytest.mark.parametrize("option", [{"kind": "rows"}, {"profile": "fast"}])
def test_a_choice_that_there_is_not(option: Any) -> None:
    with pytest.raises(ConfigurationError, match="use one of"):
        Store("s", int, **option)
    assert Store("s", int, profile="read_heavy").profile == "read_heavy"


def test_what_is_no_store_or_name() -> None:
    streams: Any = StreamsBuilder("app")
    stream = streams.stream("in", int)
    for refused in (
        lambda: streams.add_store("points"),
        lambda: streams.stream(5, int),
        lambda: stream.to(5),
        lambda: stream.filter(lambda _, value: value > 0, named=5),
        lambda: stream.repartition(partitions=0),
        lambda: stream.repartition(partitions="4"),
    ):
        with pytest.raises(ConfigurationError):
            refused()  # type: ignore[no-untyped-call]


def test_a_suppression_until_windows_close_is_for_a_table_with_these_windows() -> None:
    streams = StreamsBuilder("app")
    minutes, hours = tumbling(timedelta(minutes=1)), tumbling(timedelta(hours=1))
    stream = streams.stream("in", int)
    counts = stream.group_by_key().windowed_by(minutes).count()
    counts.suppress(until_window_closes(minutes))
    counts.map_values(str).suppress(until_window_closes(minutes))
    counts.to_stream().to_table(store="again").suppress(until_window_closes(minutes))
    tables: list[Any] = [counts, streams.table("rows", int, store="rows"), stream.group_by_key().count()]
    for table in tables:
        with pytest.raises(ConfigurationError, match="windows of the table"):
            table.suppress(until_window_closes(hours))
    with pytest.raises(ConfigurationError, match="windows"):
        until_window_closes(timedelta(minutes=1))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="BufferConfig"):
        until_limit(timedelta(minutes=1), 1000)  # type: ignore[arg-type]


BACKENDS: dict[str, dict[str, Any]] = {
    "backend can't be 'disk': use one of rocksdb, memory, redis": {"backend": "disk"},
    "profile= is for RocksDB": {"backend": "memory", "profile": "read_heavy"},
    "needs the changelog": {"backend": "redis", "logging": False},
    "max_rows= bounds rows in memory: add backend='memory'": {"max_rows": 10},
}


@pytest.mark.parametrize("message", BACKENDS)
def test_options_that_a_backend_does_not_have_are_refused(message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        Store("rows", int, **BACKENDS[message])


def test_a_global_table_is_on_the_disk_of_each_worker() -> None:
    with pytest.raises(ConfigurationError, match="store rates: each worker keeps a global table in RocksDB"):
        StreamsBuilder("app").global_table("rates", int, store=Store("rates", int, backend="redis"))


def test_an_operator_that_needs_every_row_is_not_bounded() -> None:
    streams = StreamsBuilder("app")
    left, right = streams.stream("left", int), streams.stream("right", int)
    bounded: Store[Any] = Store("joined", backend="memory", max_rows=10)
    with pytest.raises(ConfigurationError, match="store joined-left: its rows belong together"):
        left.join(right, lambda one, two: one + two, JoinWindows(0, 10), values=int, store=bounded)


def test_a_bounded_table_forgets_rows_and_says_so_in_its_changelog() -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int, store=Store("rows", int, backend="memory", max_rows=2))
    driver = TopologyTestDriver(streams.build())
    for number, key in enumerate("abcb"):
        driver.pipe("in", key, number)
    assert driver.rows("rows") == [("b", 3), ("c", 2)]
    assert driver.changelog("rows")[-2:] == [(b"a", None), (b"b", b"3")]


class Summing:
    """Sums in a store of its own."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._rows, self._context = context.store("rows"), context

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self._rows.put(key, (self._rows.get(key) or 0) + value)
        self._context.forward(key, value)


def summed_in_a_table(streams: StreamsBuilder, store: Store[Any]) -> Any:
    return streams.stream("in", int).group_by_key().reduce(operator.add, store=store).to_stream()


def summed_by_a_processor(streams: StreamsBuilder, store: Store[Any]) -> Any:
    streams.add_store(store)
    return streams.stream("in", int).process(Summing, stores=["rows"], values=int)


@pytest.mark.parametrize("summed", [summed_in_a_table, summed_by_a_processor])
def test_a_batch_with_a_bad_record_leaves_a_bounded_store_bounded(summed: Any) -> None:
    streams = StreamsBuilder("app")
    store: Store[Any] = Store("rows", int, backend="memory", max_rows=2)
    summed(streams, store).filter(lambda _, value: 1 / (value - 13)).to("out")
    driver = TopologyTestDriver(streams.build())
    for key, number in (("a", 1), ("b", 2), ("c", 3), ("x", 13), ("b", 4)):
        driver.append("in", key, number)
    driver.run()
    assert [letter.record.key for letter in driver.dead_letters] == [b"x"]
    assert driver.rows("rows") == [("b", 6), ("c", 3)]
    assert dict(driver.changelog("rows")) == {b"a": None, b"b": b"6", b"c": b"3"}
