"""The loop over many replicas: each one's trouble stays its own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from storekeeper.clock import ManualClock, SystemClock
from storekeeper.errors import DiskFullError
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.cold_restore import WorkerColdRestore
from storekeeper.node.replicas.follower import Follower
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaState
from storekeeper.stores.row import ReplicaRow
from tests.changelog.bad_records import KINDS, ROWS
from tests.changelog.messages import Record
from tests.node.replicas.fake_log import FakeLog
from tests.node.replicas.following import make, rows
from tests.node.replicas.recording import DAY_MS, RecordingListener


class Script:
    """What happens each time the follower finds nothing to do; after the last step it is stopped."""

    def __init__(self, log: FakeLog, *steps: Callable[[], None]) -> None:
        self.follower: Follower | None = None
        self._steps = list(steps)
        log.on_idle = self.step

    def step(self) -> None:
        if self._steps:
            self._steps.pop(0)()
        elif self.follower is not None:
            self.follower.stop()


class StepClock(ManualClock):
    """Moves a little with each look, so that retries come due while the loop runs."""

    def monotonic_s(self) -> float:
        self.advance(50)
        return super().monotonic_s()


@pytest.fixture
def clock() -> StepClock:
    return StepClock(now_ms=1_700_000_000_000)


@pytest.fixture
def storage(tmp_path: Path, clock: StepClock) -> RocksDBStorage:
    return RocksDBStorage(tmp_path / "state", clock)


def run(log: FakeLog, replicas: list[Replica], clock: ManualClock, *steps: Callable[[], None]) -> None:
    script = Script(log, *steps)
    script.follower = Follower(replicas, lambda: log, clock, check_every_s=1)
    script.follower.run()


def test_all_replicas_are_followed(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog(partitions=3)
    for number in range(9):
        log.append(number % 3, b"k%d" % number, b"v")
    replicas = make(storage, clock, 3)
    seen: list[dict[bytes, bytes]] = []
    run(
        log,
        replicas,
        clock,
        lambda: log.append(1, b"k1", None),
        lambda: seen.extend(rows(replica) for replica in replicas),
    )
    assert seen == [
        {b"k0": b"v", b"k3": b"v", b"k6": b"v"},
        {b"k4": b"v", b"k7": b"v"},
        {b"k2": b"v", b"k5": b"v", b"k8": b"v"},
    ]
    assert {replica.state for replica in replicas} == {ReplicaState.CLOSED}


def test_a_broker_that_is_down_is_waited_for(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog()
    log.append(0, b"k", b"v")
    log.broker_up = False
    (replica,) = make(storage, clock)
    looks: list[ReplicaState] = []

    class Waiting(Follower):
        def _read(self, reader: object) -> None:
            looks.append(replica.state)
            log.broker_up = len(looks) > 3
            if replica.state is ReplicaState.RUNNING:
                self.stop()
            if log.broker_up:
                super()._read(reader)  # type: ignore[arg-type]

    Waiting([replica], lambda: log, clock).run()
    assert looks[0] is ReplicaState.CREATED
    assert looks[-1] is ReplicaState.RUNNING


def test_a_damaged_store_is_set_aside_and_rebuilt_while_others_go_on(
    storage: RocksDBStorage, clock: StepClock, tmp_path: Path
) -> None:
    log = FakeLog(partitions=2)
    for partition in (0, 1):
        log.append(partition, b"k", b"v")
    replicas = make(storage, clock, 2)
    run(log, replicas, clock)
    (tmp_path / "state" / "rewards" / "0" / "CURRENT").unlink()

    replicas = make(storage, clock, 2)
    found: list[dict[bytes, bytes]] = []
    run(log, replicas, clock, lambda: None, lambda: found.extend(rows(replica) for replica in replicas))
    assert found == [{b"k": b"v"}, {b"k": b"v"}]
    names = sorted(entry.name.split("-")[0] for entry in (tmp_path / "state" / "rewards").iterdir())
    assert names == ["0", "0.corrupt", "1"]


def test_rows_that_are_to_be_erased_are_restored_from_the_log_and_nothing_else_is_kept(
    storage: RocksDBStorage, clock: StepClock, tmp_path: Path
) -> None:
    log = FakeLog()
    for key in (b"alice", b"bob"):
        log.append(0, key, b"v")
    (replica,) = make(storage, clock)
    found: list[dict[bytes, bytes]] = []

    def compact_and_renew() -> None:
        del log.records[0][0]
        replica.doubt(for_good=True)

    run(log, [replica], clock, compact_and_renew, lambda: None, lambda: found.append(rows(replica)))
    assert found == [{b"bob": b"v"}]
    assert not replica.damaged
    assert [entry.name for entry in (tmp_path / "state" / "rewards").iterdir()] == ["0"]


def test_damage_met_by_a_read_is_repaired_on_an_idle_log(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog()
    log.append(0, b"k", b"v")
    (replica,) = make(storage, clock)
    found: list[dict[bytes, bytes]] = []

    def damage() -> None:
        store = replica._store
        assert store is not None
        row = store.get(b"k")
        assert row is not None
        store.write([(b"k", row[:-1] + b"\0")])
        with pytest.raises(Exception, match="checksum"):
            replica.get(b"k")

    run(log, [replica], clock, damage, lambda: found.append(rows(replica)))
    assert found == [{b"k": b"v"}]


class FullDisk(Replica):
    """Its disk is full until somebody frees space."""

    full = True

    def apply(self, batch: object) -> None:
        if self.full and batch.messages:  # type: ignore[attr-defined]
            raise DiskFullError("no space left")
        super().apply(batch)  # type: ignore[arg-type]


def test_a_full_disk_is_tried_again_without_a_rebuild(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    replica = FullDisk(ReplicaId("rewards", 0), "t", storage=storage, clock=clock, listener=RecordingListener())
    replica.full = False
    states: list[ReplicaState] = []

    def fill() -> None:
        replica.full = True
        log.append(0, b"b", b"2")

    class Watching(Follower):
        def _read(self, reader: object) -> None:
            super()._read(reader)  # type: ignore[arg-type]
            if replica.state is ReplicaState.SUSPENDED and replica.full:
                states.append(replica.state)
                assert rows(replica) == {b"a": b"1"}, "it goes on answering"
                replica.full = False
            if replica.offset == 2:
                self.stop()

    log.on_idle = lambda: None if replica.full or log.end(0) > 1 else fill()
    Watching([replica], lambda: log, clock).run()
    assert states == [ReplicaState.SUSPENDED]
    assert log.added == [(0, 0), (0, 1)], "it went on behind what it had, without replay"


def test_records_that_are_no_rows_stop_no_replica(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog(partitions=2)
    for partition in (0, 1):
        log.append(partition, b"before", b"v")
    replicas = make(storage, clock, 2)
    seen: list[object] = []

    def poison() -> None:
        for kind in KINDS:
            log.records[0].append(kind.record(log.end(0)))
        log.append(0, b"after", b"w")
        log.append(1, b"after", b"w")

    def look() -> None:
        seen.extend((rows(replicas[0]), replicas[0].offset_lag, rows(replicas[1])))

    run(log, replicas, clock, poison, look)
    both = {b"before": b"v", b"after": b"w"}
    assert seen == [both | ROWS, 0, both]


def test_a_topic_made_anew_is_noticed_by_asking_and_the_rows_are_rebuilt(
    storage: RocksDBStorage, clock: StepClock
) -> None:
    log = FakeLog()
    log.append(0, b"old", b"1")
    (replica,) = make(storage, clock)
    found: list[dict[bytes, bytes]] = []

    def recreate() -> None:
        log.topic_id = "id-2"
        log.records[0] = [Record(0, b"new", b"2")]
        clock.advance(2_000)

    def look() -> None:
        if b"new" not in rows(replica):
            clock.advance(2_000)
            return
        found.append(rows(replica))

    run(log, [replica], clock, recreate, *[look] * 5)
    assert found
    assert found[-1] == {b"new": b"2"}


@pytest.mark.parametrize("what", ["files", "folder", "folder of the store", "folder of the node"])
def test_a_replica_whose_files_were_removed_is_restored(storage: RocksDBStorage, clock: StepClock, what: str) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    (replica,) = make(storage, clock)
    folder = storage.path(replica.replica_id)
    seen: list[dict[bytes, bytes]] = []

    def remove() -> None:
        if what == "files":
            for path in folder.iterdir():
                path.unlink()
        else:
            shutil.rmtree({"folder": folder, "folder of the store": folder.parent}.get(what, folder.parent.parent))
        clock.advance(2_000)

    def look() -> None:
        clock.advance(2_000)
        if folder.exists() and replica.serving:
            seen.append(rows(replica))

    run(log, [replica], clock, remove, *[look] * 5)
    assert seen
    assert seen[-1] == {b"a": b"1"}
    assert log.added[-1] == (0, 0), "from the beginning of its changelog"


def test_a_partition_that_cannot_be_read_on_is_planned_anew(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog()
    for number in range(4):
        log.append(0, b"k%d" % number, b"v")
    (replica,) = make(storage, clock)
    found: list[dict[bytes, bytes]] = []

    def truncate() -> None:
        log.records[0] = [Record(8, b"k8", b"v")]
        log.moved[0] = "offset out of range"

    run(log, [replica], clock, truncate, lambda: None, lambda: found.append(rows(replica)))
    assert found == [{b"k8": b"v"}]


def test_restores_are_given_back_by_whoever_took_them(
    storage: RocksDBStorage, clock: StepClock, tmp_path: Path
) -> None:
    log = FakeLog()
    for number in range(10):
        log.append(0, b"k%d" % number, b"v")
    (replica,) = make(storage, clock)
    taken: list[int] = []

    class ExternalSupervisor(WorkerColdRestore):
        def takes(self, replica: Replica, remaining: int) -> bool:
            del replica
            return remaining == 10 and not taken

        def restore(self, replicas: list[Replica], give_back: Callable[[Replica], None]) -> None:
            taken.append(len(replicas))
            assert not replicas[0].is_open, "the other process may open it"
            (twin,) = make(storage, clock)
            Follower([twin], lambda: log, clock).run_until_settled()
            give_back(replicas[0])

    script = Script(log, lambda: None)
    script.follower = Follower([replica], lambda: log, clock, cold_restore=ExternalSupervisor(tmp_path, Kafka("b:1")))
    script.follower.run()
    assert taken == [1]
    assert log.added[-1] == (0, 10), "nothing was read twice"
    assert replica.status().restored_records == 0


def test_a_replica_far_behind_for_too_long_is_rebuilt(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog()
    log.append(0, b"gone", b"1")
    replicas = make(storage, clock)
    run(log, replicas, clock)
    clock.advance(DAY_MS)
    log.records[0] = [Record(5, b"k", b"v")]  # the deletion of `gone` was compacted away

    replicas = make(storage, clock)
    found: list[dict[bytes, bytes]] = []
    run(log, replicas, clock, lambda: found.append(rows(replicas[0])))
    assert found == [{b"k": b"v"}]


def test_a_replica_may_come_and_go_while_others_are_followed(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog(partitions=2)
    log.append(0, b"a", b"1")
    log.append(1, b"b", b"2")
    stays, comes = make(storage, clock, partitions=2)
    seen: list[object] = []

    def gain() -> None:
        assert script.follower is not None
        script.follower.admit(comes)

    def look_and_drop() -> None:
        assert script.follower is not None
        seen.append(comes.get(b"b"))
        script.follower.release(comes)

    def look_again() -> None:
        seen.append(comes.state)
        log.append(0, b"a", b"3")

    script = Script(log, gain, lambda: None, look_and_drop, look_again, lambda: seen.append(stays.get(b"a")))
    script.follower = Follower([stays], lambda: log, clock, check_every_s=1)
    script.follower.run()

    assert [found.value if isinstance(found, ReplicaRow) else found for found in seen] == [
        b"2",
        ReplicaState.CLOSED,
        b"3",
    ]


def test_a_replica_that_goes_before_it_was_opened_is_not_followed(storage: RocksDBStorage, clock: StepClock) -> None:
    log = FakeLog(partitions=2)
    stays, goes = make(storage, clock, partitions=2)
    script = Script(log, lambda: None)
    script.follower = Follower([stays], lambda: log, clock)
    script.follower.admit(goes)
    script.follower.release(goes)
    script.follower.run()
    assert {partition for partition, _ in log.added} == {0}


def test_an_error_that_nobody_foresaw_does_not_end_the_following(
    storage: RocksDBStorage, clock: StepClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storekeeper.node.replicas.follower._FIRST_RETRY_S", 0.0)
    log = FakeLog()
    log.append(0, b"a", b"1")
    (replica,) = make(storage, clock)
    seen: list[dict[bytes, bytes]] = []

    def fail() -> None:
        raise RuntimeError("once")

    run(log, [replica], clock, fail, lambda: log.append(0, b"b", b"2"), lambda: seen.append(rows(replica)))
    assert seen == [{b"a": b"1", b"b": b"2"}]
    assert log.added == [(0, 0), (0, 1)], "it went on from where it was"
    assert replica.state is ReplicaState.CLOSED


def test_a_node_that_follows_nothing_yet_begins_at_once(
    storage: RocksDBStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storekeeper.node.replicas.follower._READ_TIMEOUT_S", 3600)
    log = FakeLog()
    log.append(0, b"k", b"v")
    (replica,) = make(storage, ManualClock(now_ms=1_700_000_000_000))
    followed = threading.Event()
    log.on_idle = followed.set
    follower = Follower([], lambda: log, SystemClock())
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    follower.admit(replica)
    assert followed.wait(60)
    follower.stop()
    thread.join(60)
    assert not thread.is_alive()
