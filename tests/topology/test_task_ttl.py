"""The store with a TTL of a task: rows go when a batch ends, and its changelog holds the rows that a read finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.changelog.skipped import LAST_TIMESTAMP_MS
from storekeeper.errors import ConfigurationError, InvalidTimestampError
from storekeeper.stores.memory import MemoryStore
from storekeeper.topology import CrashStep, Store, StoreKind, StreamsBuilder, SubTopology, TopologyTestDriver
from storekeeper.topology.operators.process import ProcessorContext
from storekeeper.topology.records import Record, StoreChange
from storekeeper.topology.task import Task
from storekeeper.topology.task_stores import restore, rows_as_logged

MS = timedelta(milliseconds=1)


class Putting:
    """Puts each record's row, None deletes it. Nobody sweeps."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.rows = context.store("rows")

    def process(self, key: str, value: int | None, timestamp_ms: int) -> None:
        self.rows.put(key, value, timestamp_ms)


def putting(ttl_ms: int = 10) -> SubTopology:
    streams = StreamsBuilder("app")
    streams.add_store(Store("rows", int, kind=StoreKind.TTL, ttl=ttl_ms * MS))
    streams.stream("in", int | None).process(Putting, stores=["rows"], values=int)
    (sub_topology,) = streams.build().sub_topologies
    return sub_topology


class Then(Enum):
    """What becomes of the task after a batch."""

    GOES_ON = auto()
    STARTS_AGAIN = auto()
    IS_GIVEN_UP = auto()
    LOSES_ITS_DISK = auto()


@dataclass
class Running:
    """A task with its local store and its changelog, batch by batch."""

    sub_topology: SubTopology = field(default_factory=putting)
    store: MemoryStore = field(default_factory=lambda: MemoryStore("rows"))
    changelog: list[StoreChange] = field(default_factory=list)
    progress: bytes = b"{}"

    def __post_init__(self) -> None:
        self.start()

    def open(self, _: str) -> MemoryStore:
        return self.store

    def start(self, sub_topology: SubTopology | None = None) -> None:
        self.sub_topology = sub_topology or self.sub_topology
        self.task = Task(self.sub_topology, 0, self, progress=self.progress)

    def batch(self, puts: Iterable[tuple[str, int | None, int]], then: Then = Then.GOES_ON) -> list[StoreChange]:
        records = [
            Record("in", 0, 0, timestamp_ms, key.encode(), None if value is None else b"%d" % value)
            for key, value, timestamp_ms in puts
        ]
        self.task.process(records)
        self.task.advance(0)
        ended = self.task.end_batch()
        if then is Then.IS_GIVEN_UP:
            self.start()
            return self.batch(puts)
        self.changelog += ended.changes
        self.progress = ended.progress
        self.task.apply()
        if then is Then.STARTS_AGAIN:
            self.start()
        if then is Then.LOSES_ITS_DISK:
            self.restore()
        return ended.changes

    def restore(self) -> None:
        """Starts on another machine, from what the log cleaner has left."""
        self.store = MemoryStore("rows")
        newest = {change.key: change for change in self.changelog}
        restore(self.sub_topology.stores[0], self.store, newest.values())
        self.start()

    @property
    def rows(self) -> dict[str, int]:
        return dict(self.task.store("rows").all())

    @property
    def logged(self) -> dict[str, int]:
        """What a reader of the changelog has."""
        newest = {change.key.decode(): change.value for change in self.changelog}
        return {key: int(value) for key, value in newest.items() if value is not None}


PUTS = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 9), st.integers(0, 60)), max_size=5)
BATCHES = st.lists(st.tuples(PUTS, st.sampled_from(Then)), max_size=12)


def check_against_a_model(batches: list[tuple[list[tuple[str, int | None, int]], Then]], ttl_ms: int) -> None:
    running = Running(putting(ttl_ms))
    model: dict[str, tuple[int, int]] = {}
    now_ms = -1
    for puts, then in batches:
        for key, value, timestamp_ms in puts:
            now_ms = max(now_ms, timestamp_ms)
            model.pop(key, None)
            if value is not None:
                model[key] = (value, timestamp_ms)
        running.batch(puts, then)
        alive = {key: value for key, (value, put_at_ms) in model.items() if put_at_ms + ttl_ms > now_ms}
        assert running.rows == running.logged == alive
        assert {change.timestamp_ms for change in running.changelog if change.value} <= set(range(61))
        index = running.task.store("rows").layers.expiry_index
        assert index.index_size() == len(alive), "expired rows are still on the disk"


@given(BATCHES, st.sampled_from([1, 10, 30]))
@settings(max_examples=100)
def test_rows_and_changelog_are_those_that_live_however_the_batches_are_cut(
    batches: list[tuple[list[tuple[str, int | None, int]], Then]], ttl_ms: int
) -> None:
    check_against_a_model(batches, ttl_ms)


@pytest.mark.long("test_task_ttl.py tries a hundred")
@given(BATCHES, st.sampled_from([1, 10, 30]))
@settings(max_examples=5000)
def test_rows_and_changelog_are_those_that_live_in_many_cases(
    batches: list[tuple[list[tuple[str, int | None, int]], Then]], ttl_ms: int
) -> None:
    check_against_a_model(batches, ttl_ms)


def test_the_changelog_is_that_of_a_key_value_store() -> None:
    running = Running()
    (change,) = running.batch([("a", 5, 3)])
    assert (change.key, change.value, change.timestamp_ms) == (b"a", b"5", 3)


def test_a_row_that_expires_with_the_batch_that_wrote_it_takes_the_row_before_along() -> None:
    running = Running()
    running.batch([("a", 1, 100)])
    assert [(change.key, change.value) for change in running.batch([("a", 2, 50)])] == [(b"a", None)]
    assert running.rows == running.logged == {}


def test_all_expired_rows_go_in_one_batch() -> None:
    running = Running()
    running.batch([(f"k{number}", number, 0) for number in range(2500)])
    gone = running.batch([("new", 1, 10)])
    assert (len(gone), running.rows, running.logged) == (2501, {"new": 1}, {"new": 1})


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(("ttl_ms", "alive"), [(5, {"b"}), (12, {"a", "b"}), (100, {"a", "b"})])
def test_rows_get_a_changed_ttl_whether_they_were_restored_or_not(
    ttl_ms: int, alive: set[str], *, restored: bool
) -> None:
    running = Running(putting(10))
    running.batch([("gone", 1, 0), ("a", 1, 12), ("b", 1, 20)])
    running.start(putting(ttl_ms))
    if restored:
        running.restore()
    assert running.rows.keys() == alive
    running.batch([])
    assert running.logged.keys() == alive
    running.batch([("now", 1, 20 + ttl_ms)])
    assert running.rows.keys() == running.logged.keys() == {"now"}
    assert running.task.store("rows").layers.expiry_index.index_size() == 1


def test_more_rows_than_are_read_at_once_get_a_changed_ttl() -> None:
    running = Running(putting(10))
    running.batch([(f"k{number}", number, 0) for number in range(2001)])
    running.start(putting(20))
    running.batch([("now", 1, 15)])
    assert len(running.rows) == len(running.logged) == 2002
    running.batch([("now", 1, 20)])
    assert running.rows == running.logged == {"now": 1}


def test_a_look_at_the_rows_changes_none_of_them() -> None:
    running = Running(putting(10))
    running.batch([("a", 1, 0)])
    with running.store.scan(None, None) as rows:
        before = list(rows)
    assert list(rows_as_logged(putting(20).stores[0], running.store)) == [(b"a", b"1")]
    with running.store.scan(None, None) as rows:
        assert list(rows) == before


def test_a_row_has_the_ttl_of_its_store_and_a_time_that_readers_can_show() -> None:
    rows = Running().task.store("rows")
    with pytest.raises(InvalidTimestampError, match="the latest that readers of the store can show"):
        rows.put("a", 1, LAST_TIMESTAMP_MS + 1)
    rows.put("a", 1, LAST_TIMESTAMP_MS)


def test_a_store_with_a_ttl_says_how_long() -> None:
    with pytest.raises(ConfigurationError, match="'rows' has rows with a TTL: give it a ttl"):
        StreamsBuilder("app").add_store(Store("rows", int, kind=StoreKind.TTL))


class Deduplicating:
    """Passes on what it has not seen for a while, and puts nothing else."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context, self._seen = context, context.store("seen")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        if self._seen.get(value) is None:
            self._seen.put(value, 1, timestamp_ms)
            self._context.forward(key, value)


def test_a_batch_that_puts_nothing_deletes_rows_from_the_changelog() -> None:
    streams = StreamsBuilder("app")
    streams.add_store(Store("seen", int, keys=int, kind=StoreKind.TTL, ttl=10 * MS))
    positive = streams.stream("in", int).filter(lambda _, value: value > 0)
    positive.process(Deduplicating, stores=["seen"], values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    for value, time_ms, changes in ((1, 0, [b"1"]), (0, 9, [b"1"]), (0, 10, [b"1", None])):
        driver.pipe("in", "k", value, time_ms)
        assert [change for _, change in driver.changelog("seen")] == changes


@settings(max_examples=100)
@given(
    records=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15)), max_size=30), size=st.integers(1, 10),
    crash=st.none() | st.tuples(st.sampled_from(CrashStep), st.integers(0, 3)),
)  # fmt: skip
def test_records_for_which_nothing_is_put_let_rows_expire(
    records: list[tuple[int, int]], size: int, crash: tuple[CrashStep, int] | None
) -> None:
    streams = StreamsBuilder("app")
    streams.add_store(Store("seen", int, keys=int, kind=StoreKind.TTL, ttl=10 * MS))
    streams.stream("in", int).process(Deduplicating, stores=["seen"], values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    if crash is not None:
        driver.crash_at(crash[0], batches_before=crash[1])
    now_ms, expected, put_at = 0, [], dict[int, int]()
    for number, (value, step_ms) in enumerate(records, 1):
        now_ms += step_ms
        driver.append("in", "k", value, now_ms)
        if value not in put_at or put_at[value] + 10 <= now_ms:
            put_at[value] = now_ms
            expected.append(value)
        if number % size == 0:
            driver.run()
    driver.run()
    assert [value for _, value, _ in driver.read("out")] == expected
    assert {value for value, _ in driver.rows("seen")} == {v for v, at in put_at.items() if at + 10 > now_ms}
