"""Copies of a global table follow their topic, and are made again when they no longer fit it. The topic is played."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.changelog.log_bounds import END
from storekeeper.changelog.reader import TopicFacts
from storekeeper.clock import ManualClock
from storekeeper.engine import global_tables
from storekeeper.engine.global_tables import GlobalTableCopy
from storekeeper.errors import StorageError
from storekeeper.kafka.connection import Kafka
from storekeeper.topology.careful_task import CarefulTask
from storekeeper.topology.records import Record
from storekeeper.topology.task import Task
from tests.engine import topologies

TOPIC = "joined-items"
RETENTION_MS = 60_000
STORE = "joined-items-store"


@dataclass
class Played:
    """A topic of two partitions. A record that the log cleaner removed is None."""

    facts: TopicFacts
    logs: tuple[list[tuple[bytes, bytes | None] | None], ...] = field(default_factory=lambda: ([], []))
    reads: list[tuple[int, int, int]] = field(default_factory=list)

    def write(self, partition: int, key: bytes, value: bytes | None) -> None:
        self.logs[partition].append((key, value))

    def clean(self, partition: int) -> None:
        """Removes records that have a later one of their key, and tombstones."""
        log = self.logs[partition]
        keys = [None if record is None else record[0] for record in log]
        for offset, record in enumerate(log):
            if record is not None and (record[1] is None or record[0] in keys[offset + 1 :]):
                log[offset] = None

    def offsets_of(self, _: Kafka, wanted: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return {(topic, at): len(self.logs[at]) if which == END else 0 for (topic, at), which in wanted.items()}

    def read_range(self, _: Kafka, __: str, partition: int, start: int, end: int) -> Iterator[Any]:
        if start < end:
            self.reads.append((partition, start, end))
        for offset, record in list(enumerate(self.logs[partition]))[start:end]:
            if record is not None:
                yield message(offset, *record)


def message(offset: int, key: bytes, value: bytes | None) -> Any:
    return SimpleNamespace(
        offset=lambda: offset, key=lambda: key, value=lambda: value, timestamp=lambda: (1, 1000 + offset)
    )


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played(TopicFacts(TOPIC, "AAA", 2, RETENTION_MS))
    monkeypatch.setattr(global_tables, "partitions_of", lambda *_: range(len(played.logs)))
    monkeypatch.setattr(global_tables, "offsets_of", played.offsets_of)
    monkeypatch.setattr(global_tables, "read_range", played.read_range)
    played.write(0, b"a", b"apple")
    played.write(0, b"b", b"banana")
    played.write(1, b"p", b"pear")
    return played


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


Open = Callable[[], GlobalTableCopy]


@pytest.fixture
def begun(topic: Played, clock: ManualClock, tmp_path: Path) -> Open:
    """A new process's copy, after the one before has ended."""
    [sub] = (sub for sub in described("joined", topologies.joined, AppSettings()).sub_topologies if sub.is_global)
    copies: list[GlobalTableCopy] = []

    def begin() -> GlobalTableCopy:
        for ended in copies:
            ended.close()
        copies[:] = [GlobalTableCopy(sub, topic.facts, tmp_path, Kafka(""), clock)]
        return copies[0]

    return begin


def rows(copy: GlobalTableCopy) -> dict[str, str]:
    found = {key: copy.get(key) for key in "abcp"}
    return {key: row.value for key, row in found.items() if row is not None}


WHOLE = {"a": "apple", "b": "banana", "p": "pear"}


def test_partitions_that_come_while_a_copy_is_open_are_read(topic: Played, begun: Open) -> None:
    copy = begun()
    copy.catch_up()
    topic.logs = (*topic.logs, [])
    topic.write(2, b"c", b"cherry")
    copy.catch_up()
    assert rows(copy) == WHOLE | {"c": "cherry"}


def test_a_copy_goes_on_where_it_ended(topic: Played, begun: Open) -> None:
    copy = begun()
    copy.catch_up()
    assert rows(copy) == WHOLE
    topic.write(0, b"a", None)
    topic.reads.clear()
    again = begun()
    again.catch_up()
    assert rows(again) == {"b": "banana", "p": "pear"}
    assert topic.reads == [(0, 2, 3)]


def test_a_copy_that_fails_on_a_record_is_brought_up_to_date_without_it(
    topic: Played, begun: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Task.process

    def failing(task: Task, records: Sequence[Record]) -> None:
        process(task, records)
        if not isinstance(task, CarefulTask):
            raise ValueError

    monkeypatch.setattr(Task, "process", failing)
    copy = begun()
    copy.catch_up()
    assert rows(copy) == WHOLE
    topic.write(0, b"c", b"cherry")
    copy.catch_up()
    assert rows(copy) == {**WHOLE, "c": "cherry"}


def test_a_row_whose_tombstone_is_gone_is_not_kept(topic: Played, begun: Open, clock: ManualClock) -> None:
    begun().catch_up()
    clock.advance(RETENTION_MS)
    topic.write(0, b"a", None)
    topic.clean(0)
    topic.write(0, b"c", b"cherry")
    copy = begun()
    copy.catch_up()
    assert rows(copy) == {"b": "banana", "c": "cherry", "p": "pear"}


def test_a_copy_of_a_quiet_topic_stays_as_good_as_new(topic: Played, begun: Open, clock: ManualClock) -> None:
    copy = begun()
    for _ in range(3):
        copy.catch_up()
        clock.advance(RETENTION_MS - 1)
    topic.write(1, b"p", b"plum")
    topic.reads.clear()
    again = begun()
    again.catch_up()
    assert topic.reads == [(1, 1, 2)]
    assert rows(again) == {**WHOLE, "p": "plum"}


def test_a_copy_that_ended_while_it_read_is_as_old_as_before(
    topic: Played, begun: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(*where: Any) -> Iterator[Any]:
        yield next(topic.read_range(*where))
        raise StorageError("the process ends here")

    begun().catch_up()
    clock.advance(RETENTION_MS - 1)
    topic.write(0, b"c", b"cherry")
    with monkeypatch.context() as patch:
        patch.setattr(global_tables, "_BATCH_RECORDS", 1)
        patch.setattr(global_tables, "read_range", ending)
        with pytest.raises(StorageError):
            begun().catch_up()
    topic.write(0, b"a", None)
    topic.clean(0)
    clock.advance(1)
    copy = begun()
    copy.catch_up()
    assert rows(copy) == {"b": "banana", "c": "cherry", "p": "pear"}


def test_a_copy_of_a_topic_that_was_made_anew_is_not_kept(topic: Played, begun: Open) -> None:
    begun().catch_up()
    topic.facts = replace(topic.facts, topic_id="BBB")
    topic.logs[0][:] = [(b"c", b"cherry"), (b"c", b"cherry")]
    copy = begun()
    copy.catch_up()
    assert rows(copy) == {"c": "cherry", "p": "pear"}


def test_a_copy_without_one_of_the_partitions_is_not_kept(topic: Played, begun: Open) -> None:
    both = topic.logs
    topic.logs = both[:1]
    begun().catch_up()
    topic.logs = both
    copy = begun()
    topic.reads.clear()
    copy.catch_up()
    assert topic.reads == [(0, 0, 2), (1, 0, 1)]
    assert rows(copy) == WHOLE


def test_a_copy_that_does_not_open_is_made_again(begun: Open, tmp_path: Path) -> None:
    begun().catch_up()
    begun()._task.close()
    (tmp_path / "copy-0" / STORE / "CURRENT").unlink()
    copy = begun()
    copy.catch_up()
    assert rows(copy) == WHOLE
    assert not list(tmp_path.rglob("*.corrupt-*"))


def test_a_copy_whose_rows_can_not_be_read_is_made_again_by_the_next_attempt(begun: Open, tmp_path: Path) -> None:
    begun().catch_up()
    begun()  # which moves the rows from the log to a table
    tables = [path for path in (tmp_path / "copy-0" / STORE).glob("*.sst") if b"apple" in path.read_bytes()]
    for table in tables:
        data = bytearray(table.read_bytes())
        data[5] ^= 0xFF
        table.write_bytes(data)
    copy = begun()
    copy.catch_up()
    with pytest.raises(StorageError, match=f"a copy of global table {STORE} was damaged .* makes it again"):
        copy.get("a")
    copy.catch_up()
    assert rows(copy) == WHOLE
    assert not list(tmp_path.rglob("*.corrupt-*"))


def test_a_copy_whose_checkpoint_can_not_be_read_is_made_again_by_the_next_attempt(begun: Open) -> None:
    copy = begun()
    copy.catch_up()
    copy._task.apply(lambda _: {b"changelog-checkpoint-1": b"{"})
    with pytest.raises(StorageError, match="unreadable changelog checkpoint"):
        copy.catch_up()
    copy.catch_up()
    assert rows(copy) == WHOLE
