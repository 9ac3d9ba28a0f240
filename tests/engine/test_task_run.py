"""What a task does with damaged local stores, and in a batch that it has committed before. Kafka is played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NoReturn

import pytest

from storekeeper.apps.errors import LostChangelogError, UnrepeatableBatchError
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.reader import TopicFacts
from storekeeper.engine import task_run
from storekeeper.engine.dead_letters import Letters
from storekeeper.engine.local_store import LocalStore
from storekeeper.engine.markers import Marker, Passed, SourceSpans
from storekeeper.engine.origins import Origins
from storekeeper.engine.parcels import passed
from storekeeper.engine.runtime.sink_metrics import Written
from storekeeper.engine.task_run import Forwarded, TaskRun
from storekeeper.engine.transaction import Transaction
from storekeeper.errors import RecordFailedError, StoreCorruptedError
from storekeeper.kafka.connection import Kafka
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.topology import Store, StreamsBuilder
from storekeeper.topology.failures import OnError
from storekeeper.topology.layout import Layout
from storekeeper.topology.record_order import Ordered, runs_of
from tests.engine import topologies

STORE = "digits"
NOTHING: Any = ()


class Abandoned:
    """A transaction that is not a replay, and is given up."""

    is_replay = False
    committed: Marker | None = Marker(0, {}, {}, b"{}")

    def __init__(self, *_: object) -> None:
        self.abandoned = False

    def abandon(self) -> None:
        self.abandoned = True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskRun:
    layout = Layout(described("shuffled", topologies.shuffled, AppSettings()).plan({"shuffled-numbers": 1}))
    (sub,) = (sub for sub in layout.topology.sub_topologies if sub.stores)
    app = SimpleNamespace(
        slot=lambda *_: SimpleNamespace(name="slot", markers="markers", partition=0),
        store_dir=lambda *_: tmp_path,
        writer=SimpleNamespace(kafka=Kafka(""), app="shuffled"),
        changelogs={STORE: TopicFacts("changelog", "AAA", 1, 60_000)},
        schema_versions={},
        app="shuffled",
        settings=AppSettings(run_dir=tmp_path / "run"),
        seeds=None,
    )
    monkeypatch.setattr(task_run, "Transaction", Abandoned)
    monkeypatch.setattr(task_run, "committed_ends", lambda *_: {("changelog", 0): 0})
    monkeypatch.setattr(LocalStore, "catch_up", lambda *_: None)
    work: Any = SimpleNamespace(app=app, batch_id=1, source_of=lambda _: {})
    return TaskRun(work, layout, sub, 0, Origins({}))


def test_a_store_that_a_read_finds_damaged_is_set_aside(
    run: TaskRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskRun, "_run", lambda _, __, ___, stores: stores.open(STORE).get(b"key"))
    with_a_damaged_row(tmp_path / STORE)
    with pytest.raises(StoreCorruptedError):
        run(NOTHING)
    found: object = run(NOTHING)
    assert found is None  # the restored store has no such row
    assert len(list(tmp_path.glob(f"{STORE}.corrupt-*"))) == 1


def test_rows_without_a_marker_are_not_gone_on_from(
    run: TaskRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Abandoned, "committed", None)
    monkeypatch.setattr(TaskRun, "_run", lambda *_: "done")
    first: object = run(NOTHING)
    assert first == "done", "a task's first batch has no rows"
    store = open_sealed(tmp_path / STORE, STORE, RocksDBOptions())
    store.write([(b"key", b"row")])
    store.close()
    with pytest.raises(LostChangelogError, match="no marker of slot in partition 0, and its store digits has"):
        run(NOTHING)


def test_a_task_knows_from_its_marker_how_far_its_changelog_had_come(
    run: TaskRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert Marker.decode(Marker(3, {}, {}, b"{}", {}, {"changelog": 7}).encode()).logs == {"changelog": 7}
    asked: list[int] = []
    monkeypatch.setattr(Abandoned, "committed", Marker(0, {}, {}, b"{}", {}, {"changelog": 7}))
    monkeypatch.setattr(task_run, "Transaction", Abandoned)
    monkeypatch.setattr(task_run, "committed_ends", lambda *_: {("changelog", 0): 9})
    monkeypatch.setattr(LocalStore, "catch_up", lambda _, __, ___, ____, reached: asked.append(reached))
    monkeypatch.setattr(TaskRun, "_run", lambda _, __, ___, stores: stores.ends({STORE: 2}))
    ends: object = run(NOTHING)
    assert ends == {"changelog": 2}
    assert asked == [7]


def test_other_errors_leave_stores_where_they_are(
    run: TaskRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise RuntimeError

    monkeypatch.setattr(TaskRun, "_run", fail)
    with pytest.raises(RecordFailedError, match=r"RuntimeError at .*test_task_run.py:\d+ in fail"):
        run(NOTHING)
    assert [path.name for path in tmp_path.iterdir()] == [STORE]


class Committed(Transaction):
    """The transaction of a batch that the task had committed."""

    forwarded: Mapping[str, Passed] = MappingProxyType({})
    left_out: SourceSpans = MappingProxyType({})

    def __init__(self, plan: Any, slot: Any, batch_id: int, source: SourceRanges) -> None:
        self._plan, self._slot, self._batch_id = plan, slot, batch_id
        self.committed = Marker(batch_id, source, self.forwarded, b"{}", self.left_out)


def replayed(
    run: TaskRun, monkeypatch: pytest.MonkeyPatch, topic: str, numbers: Iterable[int]
) -> tuple[Written, Forwarded]:
    """Runs a task again with numbers in its source."""
    monkeypatch.setattr(task_run, "Transaction", Committed)
    records = ((topic, 0, at, 1000, b"k", b"%d" % number, ()) for at, number in enumerate(numbers))
    return run(Ordered(runs_of(records), run.sub))


def test_a_committed_task_may_find_fewer_records(run: TaskRun, monkeypatch: pytest.MonkeyPatch) -> None:
    [gathering] = (sub for sub in run.layout.topology.sub_topologies if sub.stores)
    again = replayed(replace(run, sub=gathering), monkeypatch, gathering.sources[0].topic, [1])
    assert again == (Written(replayed_tasks=1), {})


def test_a_committed_task_passes_the_same_records_on_again_or_none(
    run: TaskRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    [sending] = (sub for sub in run.layout.topology.sub_topologies if not sub.stores)
    own, [topic] = replace(run, sub=sending), run.layout.shuffles
    monkeypatch.setattr(Committed, "check_replay", lambda *_: None)
    _, first = replayed(own, monkeypatch, "shuffled-numbers", [1, 2, 3, 5])
    monkeypatch.undo()
    monkeypatch.setattr(Committed, "forwarded", {topic: passed(first[topic])})
    # Even numbers are not passed on: the log cleaner may remove them.
    _, again = replayed(own, monkeypatch, "shuffled-numbers", [1, 3, 5])
    assert passed(again[topic])[0] == 3
    with pytest.raises(UnrepeatableBatchError, match=r"passed 3 records on to shuffle .*, and 2 now: .*Go back"):
        replayed(own, monkeypatch, "shuffled-numbers", [1, 3])
    for others in ([1, 3, 7], [3, 1, 5], [1, 3, 15]):
        with pytest.raises(UnrepeatableBatchError, match="and other ones now"):
            replayed(own, monkeypatch, "shuffled-numbers", others)


def test_a_replay_runs_only_the_records_that_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = StreamsBuilder("app")
    numbers, names = streams.stream("numbers", int), streams.table("names", int)
    numbers.left_join(names, lambda number, _: number, values=int).to("joined")
    numbers.select_key(lambda _, number: str(number)).group_by_key().count(store=Store("counts", int))
    layout = Layout(streams.build().plan({"numbers": 1, "names": 1}))
    [sub] = layout.sub_topologies(0)
    assert [source.topic for source in sub.sources] == ["numbers", "names"]
    monkeypatch.setattr(task_run, "Transaction", Committed)
    monkeypatch.setattr(Committed, "check_replay", lambda *_: None)
    app = SimpleNamespace(writer=None, slot=lambda *_: None)
    work: Any = SimpleNamespace(app=app, batch_id=1, source_of=lambda _: {})
    records = [(topic, 0, 0, 1000, b"k", b"1", ()) for topic in ("names", "numbers")]
    _, forwarded = TaskRun(work, layout, sub, 0, Origins({}))(Ordered(runs_of(records), sub))
    assert [passed(parcels)[0] for parcels in forwarded.values()] == [1]


class First(Transaction):
    """The transaction of a batch's first attempt: it keeps the marker, and takes no record later than 5000."""

    is_replay = False
    marker: Marker

    def __init__(self, plan: Any, slot: Any, batch_id: int, source: SourceRanges) -> None:
        self._batch_id, self._source, self.committed = batch_id, source, None
        self.refused = [Letters("elsewhere", "RefusedRecordError", "too large")]

    def latest_ms(self, topic: str) -> int:
        return 5000

    def write(self, topic: str, outputs: Iterable[Any]) -> None:
        list(outputs)

    def begin_again(self) -> None:
        """Nothing was written."""

    def commit(self, progress: bytes, forwarded: Any = None, left_out: Any = None, logs: Any = None) -> None:
        First.marker = Marker(self._batch_id, self._source, forwarded, progress, left_out, logs)


def test_a_replay_leaves_out_what_was_too_far_ahead_for_the_first_attempt(
    run: TaskRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    [sending] = (sub for sub in run.layout.topology.sub_topologies if not sub.stores)
    own, [topic] = replace(run, sub=sending), run.layout.shuffles
    vars(run.work.app).update(on_error=OnError.DEAD_LETTER)
    vars(run.work.app.writer).update(dead_letters=None)
    vars(run.work).update(writes_outputs=True)
    monkeypatch.setattr(task_run, "committed_ends", lambda *_: {})
    monkeypatch.setattr(task_run, "Transaction", First)
    records = [("shuffled-numbers", 0, number, 1000 * number, b"k", b"%d" % number, ()) for number in (1, 3, 7, 9)]
    written, first = own(Ordered(runs_of(records), sending))
    future, refused = written.letters
    assert (future.topic, future.error, future.count) == ("shuffled-numbers", "FutureTimestampError", 2)
    assert refused == Letters("elsewhere", "RefusedRecordError", "too large")
    marker = Marker.decode(First.marker.encode())
    assert marker.left_out == {"shuffled-numbers": {0: [(7, 8), (9, 10)]}}
    monkeypatch.setattr(Committed, "forwarded", marker.forwarded)
    monkeypatch.setattr(Committed, "left_out", marker.left_out)
    monkeypatch.setattr(task_run, "Transaction", Committed)
    _, again = own(Ordered(runs_of(records), sending))  # the clock has gone on, and takes them now
    assert passed(again[topic]) == passed(first[topic])
    assert passed(again[topic])[0] == 2


@pytest.mark.parametrize("odd", [(9000, b"1"), (4500, b"x")], ids=["too far ahead", "not decodable"])
@pytest.mark.parametrize("last", [b"2", b"13"], ids=["", "and one fails elsewhere"])
def test_a_replay_takes_the_others_in_the_same_order(
    run: TaskRun, monkeypatch: pytest.MonkeyPatch, odd: tuple[int, bytes], last: bytes
) -> None:
    streams = StreamsBuilder("app")
    merged = streams.stream("a", int).merge(streams.stream("b", int))
    merged.map_values(lambda number: number if number != 13 else 1 // 0, values=int).to("out")
    merged.select_key(lambda _, number: str(number)).group_by_key().count(store=Store("counts", int))
    layout = Layout(streams.build().plan({"a": 1, "b": 1}))
    [sub] = layout.sub_topologies(0)
    own = TaskRun(run.work, layout, sub, 0, Origins({}))
    vars(run.work.app).update(on_error=OnError.DEAD_LETTER, changelogs={"counts": SimpleNamespace(topic="counts")})
    vars(run.work.app.writer).update(dead_letters=None)
    vars(run.work).update(writes_outputs=True)
    monkeypatch.setattr(task_run, "committed_ends", lambda *_: {})
    monkeypatch.setattr(task_run, "Transaction", First)
    found = [("a", *odd), ("a", 1000, b"1"), ("b", 2000, b"2"), ("b", 4800, last)]
    records = [(topic, 0, at, time_ms, b"k", value, ()) for at, (topic, time_ms, value) in enumerate(found)]
    _, first = own(Ordered(runs_of(records), sub))
    monkeypatch.setattr(Committed, "forwarded", First.marker.forwarded)
    monkeypatch.setattr(Committed, "left_out", First.marker.left_out)
    monkeypatch.setattr(task_run, "Transaction", Committed)
    _, again = own(Ordered(runs_of(records), sub))
    assert again == first


def with_a_damaged_row(folder: Path) -> None:
    """A store that opens, and has a row that can't be read."""
    store = open_rocksdb(folder, STORE)
    store.write([(b"key", b"row" * 50)])
    store.close()
    open_rocksdb(folder, STORE).close()  # which moves the row from the log to a table
    for table in folder.glob("*.sst"):
        data = bytearray(table.read_bytes())
        data[5] ^= 0xFF
        table.write_bytes(data)
