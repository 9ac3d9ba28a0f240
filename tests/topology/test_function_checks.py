"""Functions that can't be called as their operator calls them are refused where the topology is described."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.topology import (
    JoinWindows,
    Store,
    StreamsBuilder,
    TimeKind,
    TopologyTestDriver,
    sessions,
    tumbling,
    with_key,
    with_window,
)

MINUTE = timedelta(minutes=1)
one: Any = lambda value: value  # noqa: E731
two: Any = lambda left, right: left  # noqa: E731
three: Any = lambda key, left, right: left  # noqa: E731
none: Any = lambda: 0  # noqa: E731


class Sides:
    """A stream, tables and groups to hang operators below."""

    def __init__(self) -> None:
        self.streams = StreamsBuilder("app")
        self.stream = self.streams.stream("in", int)
        self.other = self.streams.stream("other", int)
        self.table = self.streams.table("rows", int, store="rows")
        self.everywhere = self.streams.global_table("everywhere", int)
        self.groups = self.stream.group_by_key()
        self.windows = self.groups.windowed_by(tumbling(MINUTE))
        self.sessions = self.groups.windowed_by(sessions(MINUTE))
        self.rows: Any = self.table.group_by(lambda key, value: (key, value), values=int)


Add = Callable[[Sides, Any], object]
PLACES: dict[str, tuple[Add, int]] = {
    "filter": (lambda s, f: s.stream.filter(f), 2),
    "filter-not": (lambda s, f: s.stream.filter_not(f), 2),
    "peek": (lambda s, f: s.stream.peek(f), 2),
    "map": (lambda s, f: s.stream.map(f), 2),
    "map-values": (lambda s, f: s.stream.map_values(f), 1),
    "select-key": (lambda s, f: s.stream.select_key(f), 2),
    "group by": (lambda s, f: s.stream.group_by(f), 2),
    "branch": (lambda s, f: s.stream.split().branch(f), 2),
    "stream join": (lambda s, f: s.stream.join(s.other, f, JoinWindows.of(MINUTE)), 2),
    "outer join": (lambda s, f: s.stream.outer_join(s.other, f, JoinWindows.of(MINUTE)), 2),
    "join with a table": (lambda s, f: s.stream.left_join(s.table, f), 2),
    "join with a global table": (lambda s, f: s.stream.join(s.everywhere, f, on=two), 2),
    "on": (lambda s, f: s.stream.join(s.everywhere, two, on=f), 2),
    "reduce": (lambda s, f: s.groups.reduce(f), 2),
    "initializer": (lambda s, f: s.groups.aggregate(f, two, store=Store("a", int)), 0),
    "adder": (lambda s, f: s.groups.aggregate(none, f, store=Store("a", int)), 2),
    "adder in windows": (lambda s, f: s.windows.aggregate(none, f, store=Store("a", int)), 2),
    "merger": (lambda s, f: s.sessions.aggregate(none, two, f, store=Store("a", int)), 2),
    "cogroup": (lambda s, f: s.groups.cogroup(f), 2),
    "cogroup of a second": (lambda s, f: s.groups.cogroup(two).cogroup(s.other.group_by_key(), f), 2),
    "filter of a table": (lambda s, f: s.table.filter(f), 2),
    "filter-not of a table": (lambda s, f: s.table.filter_not(f), 2),
    "map-values of a table": (lambda s, f: s.table.map_values(f), 1),
    "group-by of a table": (lambda s, f: s.table.group_by(f, values=int), 2),
    "join of tables": (lambda s, f: s.table.join(s.streams.table("t2", int, store="t2"), f), 2),
    "outer join of tables": (lambda s, f: s.table.outer_join(s.streams.table("t2", int, store="t2"), f), 2),
    "foreign-key join": (lambda s, f: s.table.foreign_key_join(s.table, str, f, values=int), 2),
    "foreign key": (lambda s, f: s.table.foreign_key_left_join(s.table, f, two, values=int), 1),
    "reduce of a table": (lambda s, f: s.rows.reduce(f, two), 2),
    "subtractor of reduce": (lambda s, f: s.rows.reduce(two, f), 2),
    "adder of a table": (lambda s, f: s.rows.aggregate(none, f, two, store=Store("a", int)), 2),
    "subtractor": (lambda s, f: s.rows.aggregate(none, two, f, store=Store("a", int)), 2),
    "initializer of a table": (lambda s, f: s.rows.aggregate(f, two, two, store=Store("a", int)), 0),
    "check": (lambda s, f: s.streams.stream("checked", int, check=f), 3),
    "timestamps": (lambda s, f: s.streams.stream("timed", int, timestamps=f), 2),
    "factory": (lambda s, f: s.stream.process(f), 0),
    "factory of values": (lambda s, f: s.stream.process_values(f), 0),
}
MANY: dict[str, tuple[Add, int]] = {
    "flat-map": (lambda s, f: s.stream.flat_map(f), 2),
    "flat-map-values": (lambda s, f: s.stream.flat_map_values(f), 1),
}
FUNCTIONS: list[Any] = [none, one, two, three]


@pytest.mark.parametrize("place", [*PLACES, *MANY])
def test_the_number_of_arguments(place: str) -> None:
    add, wanted = {**PLACES, **MANY}[place]
    add(Sides(), [none, one, two, lambda a, b, c: a][wanted])
    for count, function in enumerate(FUNCTIONS):
        if count != wanted:
            with pytest.raises(ConfigurationError, match=r" takes \w+\("):
                add(Sides(), function)


@pytest.mark.parametrize("place", [*PLACES, *MANY])
def test_what_is_asynchronous_or_no_function(place: str) -> None:
    async def later(*_: Any) -> int:
        return 1

    async def stream(*_: Any) -> Any:
        yield 1

    class Later:
        async def __call__(self, *_: Any) -> int:
            return 1

    add, _ = (PLACES | MANY)[place]
    for function in (later, functools.partial(later, 1), functools.lru_cache(later), stream, Later()):
        with pytest.raises(ConfigurationError, match="asynchronous"):
            add(Sides(), function)
    for nothing in (5, "name"):
        with pytest.raises(ConfigurationError, match="takes"):
            add(Sides(), nothing)


def test_generators_only_where_there_are_many_results() -> None:
    def yields(*arguments: Any) -> Any:
        yield arguments

    for add, _ in PLACES.values():
        with pytest.raises(ConfigurationError, match="generator"):
            add(Sides(), yields)
    for add, _ in MANY.values():
        add(Sides(), yields)


class Total(msgspec.Struct):
    pieces: int = 0

    def __call__(self, key: str, value: int) -> bool:
        return value > self.pieces

    def method(self, key: str, value: int) -> bool:
        return value > self.pieces

    @staticmethod
    def static(key: str, value: int) -> bool:
        return bool(value)


class Needs(msgspec.Struct):
    pieces: int


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(key: str, value: int) -> Any:
        return function(value)

    return wrapper


@functools.lru_cache
def cached(key: str, value: int) -> bool:
    return bool(value)


@pytest.mark.parametrize(
    "function",
    [
        Total(),
        Total().method,
        Total.static,
        cached,
        max,
        lambda *arguments: True,
        lambda key, value, limit=3: True,
        lambda key, value, *, limit=3: True,
        functools.partial(lambda limit, key, value: True, 3),
        functools.partial(lambda key, value, limit: True, limit=3),
        doubled(lambda value: True),
    ],
)
def test_all_that_can_be_called_with_two_arguments_is_a_predicate(function: Any) -> None:
    Sides().stream.filter(function)
    with pytest.raises(ConfigurationError, match="limit"):
        Sides().stream.filter(lambda key, value, *, limit: True)  # type: ignore[arg-type, misc]


def test_a_class_makes_the_first_aggregate() -> None:
    Sides().groups.aggregate(Total, lambda total, value: Total(total.pieces + value), store="a")
    Sides().groups.aggregate(dict, lambda total, value: total | {"n": value}, store="a")
    with pytest.raises(ConfigurationError, match="pieces"):
        Sides().groups.aggregate(Needs, lambda total, value: total, store="a")  # type: ignore[arg-type]


def test_key_and_window_are_counted() -> None:
    sides = Sides()
    sides.stream.map_values(with_key(lambda key, value: value))
    sides.windows.aggregate(lambda: 0, with_window(lambda window, total, value: total), store=Store("a", int))
    with pytest.raises(ConfigurationError, match=r"with_key\(mapper\(key, value\)\)"):
        sides.stream.map_values(with_key(one))
    with pytest.raises(ConfigurationError, match=r"with_window\(adder\(window, aggregate, value\)\)"):
        sides.windows.aggregate(none, with_window(two), store=Store("b", int))
    with pytest.raises(ConfigurationError, match="with_window"):
        sides.groups.aggregate(none, with_window(three), store=Store("c", int))
    with pytest.raises(ConfigurationError, match="with_key"):
        sides.stream.filter(with_key(two))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="function"):
        sides.stream.map_values(with_key(with_key(two)))  # type: ignore[arg-type, type-var]


def test_the_message_names_operator_function_and_line() -> None:
    with pytest.raises(
        ConfigurationError, match=r"in\.filter takes predicate\(key, value\), and <lambda> \(line \d+ of"
    ):
        Sides().stream.filter(lambda value: value > 1)  # type: ignore[arg-type, misc]
    with pytest.raises(ConfigurationError, match="filter winners takes"):
        Sides().stream.filter(lambda value: value > 1, named="winners")  # type: ignore[arg-type, misc]


class Right:
    def init(self, context: Any) -> None: ...
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None: ...


class Static:
    @staticmethod
    def init(context: Any) -> None: ...
    @classmethod
    def process(cls, key: Any, value: Any, timestamp_ms: int) -> None: ...


class NoInit:
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None: ...


class Later(Right):
    async def process(self, key: Any, value: Any, timestamp_ms: int) -> None: ...  # type: ignore[override]


class Yields(Right):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> Any:
        yield value


class TakesPairs(Right):
    def process(self, key: Any, value: Any) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize("processor", [NoInit, Later, Yields, TakesPairs])
def test_processors_without_a_method_that_can_be_called(processor: Any) -> None:
    with pytest.raises(ConfigurationError, match=processor.__name__):
        Sides().stream.process(processor)
    with pytest.raises(ConfigurationError, match="process"):
        Sides().stream.process(Right())  # type: ignore[arg-type]
    sides = Sides()
    sides.stream.process(functools.partial(processor))
    with pytest.raises(ConfigurationError, match=rf"in\.process: {processor.__name__}"):
        TopologyTestDriver(sides.streams.build())


def test_processors_that_can_be_called() -> None:
    sides = Sides()
    for factory in (Right, Static, functools.partial(Right)):
        sides.stream.process(factory)
    TopologyTestDriver(sides.streams.build())


@pytest.mark.parametrize(
    ("every", "kind", "callback", "error"),
    [
        (timedelta(seconds=1), TimeKind.STREAM_TIME, one, InvalidArgumentError),
        (1.5, TimeKind.STREAM_TIME, one, InvalidArgumentError),
        (1000, "wall", one, ConfigurationError),
        (1000, TimeKind.WALL_CLOCK, none, ConfigurationError),
    ],
)
def test_timers(every: Any, kind: Any, callback: Any, error: type[Exception]) -> None:
    class Schedules(Right):
        def init(self, context: Any) -> None:
            context.schedule(every, kind, callback)

    sides = Sides()
    sides.stream.process(Schedules)
    with pytest.raises(error, match="timer"):
        TopologyTestDriver(sides.streams.build())


def test_names_of_stores_are_a_list() -> None:
    for one in ("points", Store("points", int)):
        with pytest.raises(ConfigurationError, match=r"stores= takes a list: stores=\['points'\]"):
            Sides().stream.process(Right, stores=one)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="name"):
        Sides().stream.process(Right, stores=[Store(values=int)])
