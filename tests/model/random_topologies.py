"""Random topologies, random input, and what the results must be: by a recomputation in plain Python.

A topology is a list of nodes; each takes its operands from the nodes before it, so that one table may reach another by
several ways. Each node is observed: `finals` gives the last value of each key, and for streams all values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

from hypothesis import strategies as st

from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.runtime.batch_ends import BatchEnds
from storekeeper.engine.runtime.record_times import Times
from storekeeper.engine.topic_groups import topic_groups
from storekeeper.topology import (
    EmitStrategy,
    JoinWindows,
    KStream,
    KTable,
    OutputRecord,
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    hopping,
    sessions,
    tumbling,
    until_limit,
    until_window_closes,
)

MS = timedelta(milliseconds=1)
TABLES, STREAMS = ("t0", "t1", "t2"), ("s0", "s1")
KEYS = ("a", "b", "c")
BEGIN_MS = 1_700_000_000_000
"""The time of the first record. It is the begin of a window."""
FLUSH_KEY, FLUSH_MS = "flush", BEGIN_MS + 1_000_000
"""Records at the end that close all windows."""
SIZE_MS, GAP_MS, NEAR_MS = 10, 5, 7


class Input(NamedTuple):
    """A record of a source topic. Its place in the input gives its time."""

    topic: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Node:
    """One operator.

    Attributes:
        kind: which one.
        operands: the numbers of the nodes above it.
        topic: of a source.
        stored, cached: whether its rows are kept, and whether only their last change in a batch goes on.
    """

    kind: str
    operands: tuple[int, ...] = ()
    topic: str = ""
    stored: bool = False
    cached: bool = False


Nodes = tuple[Node, ...]
_TABLE_KINDS = ("filter", "map", "join", "left", "outer", "fk", "fk-left", "group", "suppress")
_STREAM_KINDS = ("near", "lookup", "windows", "hopping", "closing", "final", "sessions", "totals")
_ORDERLESS = frozenset({"fk", "fk-left", "group", "totals"})
"""What comes through a repartition has no order of its own, so nothing that depends on order may follow."""


def number(value: Any) -> int:
    """A number that depends on all of a value of any shape."""
    if isinstance(value, Mapping):
        return sum(len(name) + number(part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return sum(place + number(part) for place, part in enumerate(value, 1))
    return 0 if value is None else len(value) if isinstance(value, str) else int(value)


def shrunk(value: Any) -> Any:
    """A function of a row: None for some rows."""
    found = number(value)
    return None if found % 4 == 3 else {"of": found % 5, "in": [found]}


def passes(_key: Any, value: Any) -> bool:
    """A predicate."""
    return number(value) % 3 != 0


def named(value: Any) -> str | None:
    """The foreign key in a row."""
    return None if number(value) % 5 == 4 else KEYS[number(value) % 3]


def pair(left: Any, right: Any) -> dict[str, Any]:
    """A joiner."""
    return {"l": left, "r": right}


def totalled(total: Mapping[str, int], value: Any) -> dict[str, int]:
    """An adder."""
    return {"n": total.get("n", 0) + 1, "sum": total.get("sum", 0) + number(value)}


def less(total: Mapping[str, int], value: Any) -> dict[str, int] | None:
    """Its subtractor. A group without rows is gone."""
    return None if total["n"] == 1 else {"n": total["n"] - 1, "sum": total["sum"] - number(value)}


def together(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    """Its merger."""
    return {name: one.get(name, 0) + two.get(name, 0) for name in ("n", "sum")}


def group(key: Any, value: Any) -> str:
    """The key of a group."""
    return grouped(key, value)[0]


def grouped(key: Any, value: Any) -> tuple[str, Any]:
    """A selector of groups."""
    return FLUSH_KEY if key.startswith(FLUSH_KEY) else f"g{number(value) % 2}", value


JSON = st.recursive(
    st.integers(-3, 20) | st.sampled_from(["", "x", "yy"]) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2),
    max_leaves=4,
)
VALUES = st.dictionaries(st.sampled_from(["v", "w"]), JSON, min_size=1, max_size=2)


@st.composite
def inputs(draw: st.DrawFn, size: int = 16, *, least: int = 0) -> list[Input]:
    """Records of all sources, deletions of rows included."""
    record = st.builds(Input, st.sampled_from(TABLES + STREAMS), st.sampled_from(KEYS), VALUES | st.none())
    found = draw(st.lists(record, min_size=least, max_size=size))
    return [one if one.topic in TABLES or one.value is not None else one._replace(value={"v": 1}) for one in found]


@st.composite
def topologies(draw: st.DrawFn, size: int = 5) -> Nodes:
    """Nodes over all sources."""
    nodes = [Node("table", topic=topic, stored=True, cached=draw(st.booleans())) for topic in TABLES]
    nodes += [Node("stream", topic=topic) for topic in STREAMS]
    for _ in range(draw(st.integers(1, size))):
        kind = draw(st.sampled_from(_TABLE_KINDS + _STREAM_KINDS))
        nodes.append(_drawn(draw, kind, nodes))
    return tuple(nodes)


def _drawn(draw: st.DrawFn, kind: str, nodes: Sequence[Node]) -> Node:
    tables = [place for place, node in enumerate(nodes) if is_table(node)]
    streams = [place for place, node in enumerate(nodes) if node.kind == "stream"]
    ordered = [place for place in tables if not _kinds_above(nodes, place) & _ORDERLESS]
    plain = [place for place in ordered if not any(node.cached for node in _above(nodes, place))]
    operands: tuple[int, ...]
    if kind in {"join", "left", "outer", "fk", "fk-left"}:
        operands = draw(st.tuples(st.sampled_from(tables), st.sampled_from(tables)))
    elif kind in {"lookup", "suppress"} and not plain:
        return Node("totals", (streams[0],))
    elif kind == "lookup":
        operands = draw(st.tuples(st.sampled_from(streams), st.sampled_from(plain)))
    elif kind == "suppress":
        operands = (draw(st.sampled_from(plain)),)
    elif kind == "near":
        operands = (streams[0], streams[1])
    else:
        operands = (draw(st.sampled_from(tables if kind in _TABLE_KINDS else streams)),)
    node = Node(kind, operands)
    if kind in {"filter", "map", "join", "left", "outer", "fk", "fk-left"}:
        node = replace(node, stored=draw(st.booleans()))
    if node.stored or kind in {"group", "totals"}:
        node = replace(node, cached=draw(st.booleans()))
    return node


def is_table(node: Node) -> bool:
    """Whether a node is a table by key, which others may take."""
    return node.kind in {"table", "totals", *_TABLE_KINDS}


def _above(nodes: Sequence[Node], place: int) -> Iterator[Node]:
    yield nodes[place]
    for operand in nodes[place].operands:
        yield from _above(nodes, operand)


def _kinds_above(nodes: Sequence[Node], place: int) -> set[str]:
    return {node.kind for node in _above(nodes, place)}


def is_delayed(nodes: Sequence[Node], place: int) -> bool:
    """Whether something above holds changes back until time has passed, so that the last ones may be missing."""
    return "suppress" in _kinds_above(nodes, place)


def describe(nodes: Nodes, streams: StreamsBuilder) -> None:
    """Describes the topology. Node `n` writes to topic `out-n`."""
    made: list[Any] = []
    for place, node in enumerate(nodes):
        made.append(_built(streams, node, f"n{place}", [made[operand] for operand in node.operands]))
        out: KStream[Any, Any] = made[-1].to_stream() if isinstance(made[-1], KTable) else made[-1]
        if node.kind != "stream":
            out.to(f"out-{place}")


def _built(streams: StreamsBuilder, node: Node, name: str, operands: list[Any]) -> Any:
    kept: Store[Any] = Store(name, dict, caching=node.cached)
    if node.kind == "stream":
        return streams.stream(node.topic, dict)
    if node.kind == "table":
        return streams.table(node.topic, dict, store=kept)
    if node.kind in _DERIVED:
        return _DERIVED[node.kind](*operands, kept if node.stored else None)
    return _OTHERS[node.kind](*operands, kept)


_FIXED = tumbling(SIZE_MS * MS, grace=SIZE_MS * MS)
_HOPPING = hopping(SIZE_MS * MS, advance=SIZE_MS * MS // 2, grace=SIZE_MS * MS)
_SESSIONS = sessions(GAP_MS * MS, grace=SIZE_MS * MS)


def _sums(stream: Any, windows: Any, store: Store[Any], emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE) -> Any:
    return stream.group_by_key().windowed_by(windows, emit=emit).aggregate(dict, totalled, store=store)


_DERIVED: dict[str, Callable[..., Any]] = {
    "filter": lambda table, store: table.filter(passes, store=store),
    "map": lambda table, store: table.map_values(shrunk, values=dict, store=store),
    "join": lambda left, right, store: left.join(right, pair, store=store),
    "left": lambda left, right, store: left.left_join(right, pair, store=store),
    "outer": lambda left, right, store: left.outer_join(right, pair, store=store),
    "fk": lambda left, right, store: left.foreign_key_join(right, named, pair, store=store),
    "fk-left": lambda left, right, store: left.foreign_key_left_join(right, named, pair, store=store),
}
"""Operators whose rows may be kept. They take the store, or None."""
_OTHERS: dict[str, Callable[..., Any]] = {
    "group": lambda table, store: table.group_by(grouped, values=dict).aggregate(dict, totalled, less, store=store),
    "totals": lambda stream, store: stream.group_by(group).aggregate(dict, totalled, store=store),
    "suppress": lambda table, _: table.suppress(until_limit(6 * MS)),
    "lookup": lambda stream, table, _: stream.left_join(table, pair),
    "near": lambda left, right, _: left.join(right, pair, JoinWindows.of(NEAR_MS * MS)),
    "windows": lambda stream, store: _sums(stream, _FIXED, store),
    "hopping": lambda stream, store: _sums(stream, _HOPPING, store),
    "closing": lambda stream, store: _sums(stream, _FIXED, store, EmitStrategy.ON_WINDOW_CLOSE),
    "final": lambda stream, store: _sums(stream, _FIXED, store).suppress(until_window_closes(_FIXED)),
    "sessions": lambda stream, store: stream.group_by_key().windowed_by(_SESSIONS).aggregate(
        dict, totalled, together, store=store),
}  # fmt: skip


Final = dict[Any, Any] | list[Any]
"""The last value of each key; of a stream all values, with their keys, in a fixed order."""


def driven(nodes: Nodes, records: Sequence[Input], cuts: Sequence[int], driver: TopologyTestDriver) -> dict[int, Final]:
    """What the outputs of each node come to.

    Args:
        nodes: the topology.
        records: the input.
        cuts: the sizes of the batches that it falls into, again and again.
        driver: a driver of the topology.
    """
    batch, number_of_batch = 0, 0
    for at, (topic, key, value) in enumerate(records):
        driver.append(topic, key, value, BEGIN_MS + at)
        batch += 1
        if batch >= cuts[number_of_batch % len(cuts)]:
            driver.run()
            batch, number_of_batch = 0, number_of_batch + 1
    driver.run()
    return finished(nodes, driver)


def driven_from_full_topics(
    nodes: Nodes, records: Sequence[Input], most: int, driver: TopologyTestDriver
) -> dict[int, Final]:
    """The same where all records are there at the first start, and the engine plans batches of at most `most`."""
    logs: dict[TopicAndPartition, list[tuple[int, Input]]] = {}
    for at, record in enumerate(records):
        partition = partition_for(record.key.encode(), driver.plan.partitions[record.topic])
        logs.setdefault((record.topic, partition), []).append((BEGIN_MS + at, record))

    def offsets_at(places: Iterable[TopicAndPartition], time_ms: int) -> dict[TopicAndPartition, int]:
        return {place: bisect_left(logs[place], time_ms, key=itemgetter(0)) for place in places}

    def read_times(ranges: Mapping[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, Times]:
        return {
            place: [*enumerate(map(itemgetter(0), logs[place][first:behind]), first)]
            for place, (first, behind) in ranges.items()
        }

    plan = BatchEnds(topic_groups(driver._layout), most, offsets_at, read_times)
    start, end = dict.fromkeys(logs, 0), {place: len(log) for place, log in logs.items()}
    while start != end:
        planned = plan(start, end)
        assert 0 < sum(planned.values()) - sum(start.values()) <= most + len(logs)
        for place, log in logs.items():
            for time_ms, (topic, key, value) in log[start[place] : planned[place]]:
                driver.append(topic, key, value, time_ms)
        driver.run()
        start = planned
    return finished(nodes, driver)


def finished(nodes: Nodes, driver: TopologyTestDriver) -> dict[int, Final]:
    """What the outputs of each node have come to, once all windows are closed."""
    for topic in STREAMS:
        for partition in range(driver.plan.partitions[topic]):
            driver.append(topic, _flush_key(partition, driver.plan.partitions[topic]), {}, FLUSH_MS)
    driver.run()
    outputs = {place: driver.read(f"out-{place}") for place, node in enumerate(nodes) if node.kind != "stream"}
    return {place: _final(nodes[place], records) for place, records in outputs.items()}


def _final(node: Node, records: Iterable[OutputRecord]) -> Final:
    if node.kind in {"lookup", "near", "closing", "final"}:
        return sorted(((_plain(key), value) for key, value, *_ in records if not _is_flush(key)), key=repr)
    last = {_plain(key): value for key, value, *_ in records if not _is_flush(key)}
    return {key: value for key, value in last.items() if value is not None}


def _flush_key(partition: int, partitions: int) -> str:
    names = (f"{FLUSH_KEY}-{number}" for number in count())
    return next(name for name in names if partition_for(name.encode(), partitions) == partition)


def _is_flush(key: Any) -> bool:
    return (key if isinstance(key, str) else key.key).startswith(FLUSH_KEY)


def _plain(key: Any) -> Any:
    return key if isinstance(key, str) else (key.key, key.start_ms - BEGIN_MS, key.end_ms - BEGIN_MS)


def expected(nodes: Nodes, records: Sequence[Input]) -> dict[int, Final]:
    """What the outputs of each node must come to, if record `n` was made `n` ms after the first."""
    computed: list[Any] = []
    for place, node in enumerate(nodes):
        computed.append(_recomputed(node, [computed[operand] for operand in node.operands], records))
        if node.kind == "lookup":
            computed[place] = _looked_up(nodes, node, records)
    return {
        place: sorted(value, key=repr) if isinstance(value, list) else value
        for place, value in enumerate(computed)
        if nodes[place].kind != "stream"
    }


def _recomputed(node: Node, operands: list[Any], records: Sequence[Input]) -> Any:
    if node.kind == "table":
        return _present({one.key: one.value for one in records if one.topic == node.topic})
    if node.kind == "stream":
        return [(at, one.key, one.value) for at, one in enumerate(records) if one.topic == node.topic]
    if node.kind in {"join", "left", "outer"}:
        return _joined(node.kind, *operands)
    if node.kind in {"fk", "fk-left"}:
        return _joined_by_name(node.kind, *operands)
    if node.kind in {"windows", "hopping", "closing", "final"}:
        return _windows(node.kind, *operands)
    return _RECOMPUTED[node.kind](*operands)


def _present(rows: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rows.items() if value is not None}


def _joined_by_name(kind: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    found = {key: (value, right.get(named(value) or "")) for key, value in left.items()}
    return {key: pair(*both) for key, both in found.items() if kind == "fk-left" or both[1] is not None}


def _pairs(left: list[Any], right: list[Any]) -> list[Any]:
    return [(key, pair(one, two)) for at, key, one in left for other_at, other, two in right
            if key == other and abs(at - other_at) <= NEAR_MS]  # fmt: skip


def _joined(kind: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    keys = (
        left.keys() & right.keys() if kind == "join" else left.keys() if kind == "left" else left.keys() | right.keys()
    )
    return {key: pair(left.get(key), right.get(key)) for key in keys}


def _totals(values: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    totals: dict[Any, Any] = {}
    for key, value in values:
        totals[key] = totalled(totals.get(key, {}), value)
    return totals


def _looked_up(nodes: Nodes, node: Node, records: Sequence[Input]) -> list[Any]:
    stream, table = node.operands
    found = []
    for at, one in enumerate(records):
        if one.topic == nodes[stream].topic:
            now = expected(nodes[: table + 1], records[:at])[table]
            assert isinstance(now, dict)
            found.append((one.key, pair(one.value, now.get(one.key))))
    return found


def _windows(kind: str, values: Iterable[tuple[int, str, Any]]) -> Any:
    advance = SIZE_MS // 2 if kind == "hopping" else SIZE_MS
    totals: dict[Any, Any] = {}
    for at, key, value in values:
        for start in range(((at - SIZE_MS) // advance + 1) * advance, at + 1, advance):
            if start <= at < start + SIZE_MS:
                window = (key, start, start + SIZE_MS)
                totals[window] = totalled(totals.get(window, {}), value)
    return list(totals.items()) if kind in {"closing", "final"} else totals


def _sessions(values: Iterable[tuple[int, str, Any]]) -> dict[Any, Any]:
    sessions_of: dict[str, list[tuple[int, int, dict[str, int]]]] = {}
    for at, key, value in values:
        found = sessions_of.setdefault(key, [])
        total = totalled({}, value)
        if found and at - found[-1][1] <= GAP_MS:
            start, _, before = found.pop()
            found.append((start, at, together(before, total)))
        else:
            found.append((at, at, total))
    return {(key, start, end): total for key, found in sessions_of.items() for start, end, total in found}


_RECOMPUTED: dict[str, Callable[..., Any]] = {
    "filter": lambda table: {key: value for key, value in table.items() if passes(key, value)},
    "map": lambda table: _present({key: shrunk(value) for key, value in table.items()}),
    "group": lambda table: _totals(grouped(key, value) for key, value in table.items()),
    "totals": lambda stream: _totals(grouped(key, value) for _, key, value in stream),
    "suppress": lambda table: table,
    "near": _pairs,
    "lookup": lambda *_: [],
    "sessions": _sessions,
}
