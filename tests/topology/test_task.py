"""A task as an engine runs it: over stores that outlive it, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import chain
from pathlib import Path

import pytest

from storekeeper.serdes.keys.versions import decode_version_row_key
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb_sealed import SealedSupplier
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology import (
    JoinWindows,
    Store,
    StoreKind,
    StreamsBuilder,
    SubTopology,
    sessions,
    tumbling,
    until_limit,
)
from storekeeper.topology.operators.process import ProcessorContext
from storekeeper.topology.records import Batch, Record
from storekeeper.topology.task import Task
from storekeeper.topology.task_stores import restore
from storekeeper.topology.times import TimeKind
from storekeeper.trace_context import TRACEPARENT
from tests.test_trace_context import TRACE

MS = timedelta(milliseconds=1)


def everything() -> SubTopology:
    streams = StreamsBuilder("app")
    one, two = streams.stream("one", int), streams.stream("two", int)
    one.outer_join(two, lambda left, right: [left, right], JoinWindows(5, 5, 5), values=list).to("out")
    one.group_by_key().count(store="counts")
    one.group_by_key().windowed_by(tumbling(10 * MS)).count(store="windows")
    one.group_by_key().windowed_by(sessions(10 * MS)).count(store="sessions")
    table = two.to_table(store=Store("newest", int, history=100 * MS))
    one.join(table, lambda left, right: [left, right], grace=5 * MS, values=list).to("out")
    table.suppress(until_limit(10 * MS)).to_stream().to("out")
    (sub_topology,) = streams.build().sub_topologies
    return sub_topology


def records(start: int, end: int) -> list[Record]:
    topics = ("one", "two", "one")
    return [Record(topics[i % 3], 0, i, i * 3 % 47 + i, b"k%d" % (i % 4), b"%d" % i) for i in range(start, end)]


def batch(task: Task, start: int, end: int) -> Batch:
    task.process(records(start, end))
    task.advance(0)
    ended = task.end_batch()
    task.apply(lambda _: {b"batch": b"%d" % end})
    return ended


def in_batches(directory: Path, *, reopen: Callable[[Task, str], Task]) -> tuple[list[object], list[object]]:
    task = Task(everything(), 0, SealedSupplier(directory))
    outputs: list[object] = []
    for start in range(0, 60, 10):
        ended = batch(task, start, start + 10)
        outputs += chain.from_iterable(ended.outputs.values())
        task = reopen(task, ended.progress.decode())
    rows: list[object] = [list(task.store("counts").all()), list(task.store("windows").all())]
    rows.append(list(task.store("sessions").fetch_range(None, None)))
    task.close()
    return outputs, rows


def test_a_task_that_is_opened_for_each_batch_gives_what_one_that_stays_gives(tmp_path: Path) -> None:
    def opened(task: Task, progress: str) -> Task:
        task.close()
        return Task(everything(), 0, SealedSupplier(tmp_path / "opened"), progress=progress.encode())

    staying = in_batches(tmp_path / "staying", reopen=lambda task, _: task)
    assert in_batches(tmp_path / "opened", reopen=opened) == staying
    assert len(staying[0]) > 50


def test_outputs_are_taken_once_whether_within_a_batch_or_at_its_end(tmp_path: Path) -> None:
    tasks = [Task(everything(), 0, SealedSupplier(tmp_path / name)) for name in ("whole", "parts")]
    one_topic = [record for record in records(0, 60) if record.topic == "one"]
    tasks[0].process(one_topic)
    taken = []
    for start in range(0, len(one_topic), 7):
        tasks[1].process(one_topic[start : start + 7])
        taken.append(tasks[1].take_outputs())
    whole, rest = (task.end_batch() for task in tasks)
    parts = [outputs.get("out", []) for outputs in (*taken, rest.outputs)]
    assert list(chain.from_iterable(parts)) == list(whole.outputs["out"])
    assert sum(map(bool, parts)) > 2
    assert sorted(rest.changes, key=repr) == sorted(whole.changes, key=repr)
    for task in tasks:
        task.close()


def test_a_batch_that_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    supplier = SealedSupplier(tmp_path)
    task = Task(everything(), 0, supplier)
    task.process(records(0, 30))
    task.end_batch()
    task.close()
    for spec in everything().stores:
        store = supplier.open(spec.name)
        with store.scan(None, None) as rows:
            assert list(rows) == []
        store.close()


def test_the_engines_mark_is_in_every_store(tmp_path: Path) -> None:
    supplier = SealedSupplier(tmp_path)
    task = Task(everything(), 0, supplier)
    batch(task, 0, 30)
    task.close()
    marks = []
    for spec in everything().stores:
        store: BytesStore = supplier.open(spec.name)
        marks.append(store.metadata(b"batch"))
        store.close()
    assert set(marks) == {b"30"}


def test_stores_restored_from_the_changelog_go_on_alike(tmp_path: Path) -> None:
    task = Task(everything(), 0, SealedSupplier(tmp_path / "first"))
    first = batch(task, 0, 30)
    fresh = SealedSupplier(tmp_path / "second")
    for spec in everything().stores:
        backend = fresh.open(spec.name)
        restore(spec, backend, [change for change in first.changes if change.store == spec.name])
        backend.close()
    restored = Task(everything(), 0, fresh, progress=first.progress)
    one, other = batch(task, 30, 60), batch(restored, 30, 60)
    assert one.outputs == other.outputs
    assert sorted(one.changes, key=repr) == sorted(other.changes, key=repr)
    task.close()
    restored.close()


class ProcessSupervisor:
    """Puts each value, or deletes its key where the value is 0."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.stores = [context.store(name) for name in ("passing", "windows", "versions")]

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        for store in self.stores:
            store.put(key, value or None, timestamp_ms)


def keeping() -> SubTopology:
    streams = StreamsBuilder("app")
    streams.add_store(Store("passing", int, kind=StoreKind.TTL, ttl=10 * MS))
    streams.add_store(Store("windows", int, kind=StoreKind.WINDOW, retention=10 * MS))
    streams.add_store(Store("versions", int, kind=StoreKind.VERSIONED, history=10 * MS))
    streams.stream("in", int).process(ProcessSupervisor, stores=["passing", "windows", "versions"], values=int)
    (sub_topology,) = streams.build().sub_topologies
    return sub_topology


def test_stream_time_of_a_store_outlives_a_restore_without_the_deletion_that_moved_it(
    tmp_path: Path,
) -> None:
    task = Task(keeping(), 0, MemorySupplier())
    batches = []
    for offset, (key, value, timestamp_ms) in enumerate([(b"a", b"5", 0), (b"b", b"0", 20)]):
        task.process([Record("in", 0, offset, timestamp_ms, key, value)])
        batches.append(task.end_batch())
        task.apply()
    fresh = SealedSupplier(tmp_path)
    for spec in keeping().stores:
        backend = fresh.open(spec.name)
        rows = [change for ended in batches for change in ended.changes if change.store == spec.name]
        restore(spec, backend, [change for change in rows if change.value is not None])
        backend.close()
    restored = Task(keeping(), 0, fresh, progress=batches[-1].progress)
    assert [one.store("passing").get("a") for one in (task, restored)] == [None, None]
    assert [one.store("windows").fetch_one("a", 0) for one in (task, restored)] == [None, None]
    task.close()
    restored.close()


def kept(task: Task, *rows: tuple[bytes, int, int]) -> dict[tuple[bytes, int], bytes | None]:
    """What a batch of keys, values and times changes in the versions."""
    task.process([Record("in", 0, 0, timestamp_ms, key, b"%d" % value) for key, value, timestamp_ms in rows])
    changes = [change for change in task.end_batch().changes if change.store == "versions"]
    return {decode_version_row_key(change.key): change.value for change in changes}


def test_a_batch_deletes_versions_of_keys_that_are_not_written_any_more(tmp_path: Path) -> None:
    supplier = SealedSupplier(tmp_path)
    task = Task(keeping(), 0, supplier)
    assert kept(task, (b"a", 1, 0), (b"b", 1, 0), (b"a", 0, 5), (b"b", 2, 6)).keys() == {
        (b"a", 0), (b"b", 0), (b"a", 5), (b"b", 6),
    }  # fmt: skip
    task.apply()
    gone = {(b"a", 0): None, (b"a", 5): None, (b"b", 0): None}
    assert kept(task, (b"c", 3, 100)) == {(b"c", 100): b"\x013"} | gone
    task.close()  # the batch is given up
    task = Task(keeping(), 0, supplier)
    assert kept(task, (b"c", 3, 100)) == {(b"c", 100): b"\x013"} | gone
    task.apply()
    assert kept(task, (b"c", 4, 101)) == {(b"c", 101): b"\x014"}
    task.apply()
    versions = task.store("versions")
    assert [versions.get(key) for key in ("a", "b", "c")] == [None, (2, 6, -1), (4, 101, -1)]
    index = versions.layers.expiry_index
    with index.scan(None, None) as rows:
        assert [decode_version_row_key(key) for key, _ in rows] == [(b"b", 6), (b"c", 101), (b"c", 100)]
    assert index.index_size() == 2
    task.close()


class Ticking:
    """Forwards each record, and one more each second."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        context.schedule(1000, TimeKind.WALL_CLOCK, lambda now_ms: context.forward("timer", now_ms, now_ms))

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self._context.forward(key, value, timestamp_ms)


def traced(offset: int, key: bytes, trace: bytes | None = TRACE) -> Record:
    return Record("one", 0, offset, offset, key, b"1", () if trace is None else [("x", b"y"), (TRACEPARENT, trace)])


def changed(task: Task) -> dict[tuple[str, bytes], bytes | None]:
    """The trace of each change of a batch, by its store and the beginning of its key."""
    ended = task.end_batch()
    task.apply()
    return {(change.store, change.key[:2]): change.trace for change in ended.changes if change.store != "newest"}


def test_a_change_has_the_trace_of_the_record_that_made_it_last() -> None:
    other = TRACE[:-1] + b"0"
    task = Task(everything(), 0, MemorySupplier())
    task.process(
        [traced(1, b"k1"), traced(2, b"k2"), traced(3, b"k2", other), traced(4, b"k3"), traced(5, b"k3", None)]
    )
    found = changed(task)
    for store in ("counts", "windows", "sessions"):
        assert [found[store, key] for key in (b"k1", b"k2", b"k3")] == [TRACE, other, None], store
    task.process([traced(6, b"k1", None), traced(7, b"k2", b"no traceparent")])
    assert set(changed(task).values()) == {None}


def test_an_output_has_the_trace_of_its_record_and_a_timer_has_none() -> None:
    streams = StreamsBuilder("app")
    streams.stream("one", int).process(Ticking, values=int).to("out")
    (sub_topology,) = streams.build().sub_topologies
    task = Task(sub_topology, 0, MemorySupplier())
    task.process([traced(1, b"k1")])
    for now_ms in (0, 10_000):
        task.advance(now_ms)
    by_record, by_timer = task.end_batch().outputs["out"]
    assert (TRACEPARENT, TRACE) in by_record[3]
    assert by_timer[3] == ()


def test_a_record_of_a_topic_that_is_not_read_is_refused() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).to("out")
    (one_source,) = streams.build().sub_topologies
    for sub_topology in (one_source, everything()):
        with pytest.raises(KeyError, match="other"):
            Task(sub_topology, 0, MemorySupplier()).process([Record("other", 0, 0, 0, b"a", b"1")])
