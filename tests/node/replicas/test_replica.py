"""One replica, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog.testing

from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.errors import ChangelogMovedError, TombstonesExpiredError
from storekeeper.changelog.log_ends import LogEnd
from storekeeper.changelog.restore import RestoreAction, RestoreReason
from storekeeper.changelog.skipped import SkippedTotals
from storekeeper.clock import ManualClock
from storekeeper.errors import (
    DiskFullError,
    StoreCorruptedError,
    StoreRestoringError,
    StoreUnavailableError,
)
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import MemoryStorage, ReplicaStorage, RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaState
from tests.changelog.bad_records import KINDS, ROWS, SKIPPED, Kind
from tests.changelog.messages import Record
from tests.node.replicas.recording import DAY_MS, RecordingListener, batch, log_of, make_replica

ID = ReplicaId("rewards", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_ms=1_700_000_000_000)


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> RocksDBStorage:
    return RocksDBStorage(tmp_path / "state", clock)


@pytest.fixture
def listener() -> RecordingListener:
    return RecordingListener()


@pytest.fixture
def make(storage: RocksDBStorage, clock: ManualClock, listener: RecordingListener) -> Iterator[Callable[[], Replica]]:
    made: list[Replica] = []

    def one() -> Replica:
        made.append(make_replica(storage, clock, listener))
        return made[-1]

    yield one
    for replica in made:
        replica.close()


def state_of(replica: Replica) -> ReplicaState:
    return replica.state


def values(replica: Replica) -> dict[bytes, bytes]:
    with replica.scan(None, None) as rows:
        return {key: row.value for key, row in rows}


def test_a_restore_from_nothing(make: Callable[[], Replica], listener: RecordingListener) -> None:
    replica = make()
    plan = replica.open(log_of(0, 4))
    assert (plan.action, plan.offset) == (RestoreAction.REPLAY, 0)
    with pytest.raises(StoreRestoringError):
        replica.get(b"k")

    replica.apply(batch([Record(0, b"k", b"v0"), Record(1, b"j", b"v1")]))
    assert state_of(replica) is ReplicaState.RESTORING
    assert replica.offset_lag == 2
    replica.apply(batch([Record(2, b"j", None), Record(3, b"k", b"v3")]))

    assert state_of(replica) is ReplicaState.RUNNING
    assert values(replica) == {b"k": b"v3"}
    assert replica.get(b"j") is None
    assert listener.events == [("started", 0, 0), ("progress", 2, 2), ("ended", 4, 4)]


def test_the_end_may_be_a_gap(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 10))
    replica.apply(batch([Record(3, b"k", b"v")]))
    assert not replica.serving
    replica.apply(batch([], next_offset=10, end=True))
    assert replica.serving


def test_an_empty_log_is_restored_at_once(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 0))
    assert replica.serving
    assert replica.get(b"k") is None


def test_a_restart_resumes_behind_the_last_batch(make: Callable[[], Replica]) -> None:
    first = make()
    first.open(log_of(0, 2))
    first.apply(batch([Record(0, b"a", b"1"), Record(1, b"b", b"2")], end=True))
    first.close()

    again = make()
    plan = again.open(log_of(0, 3))
    assert (plan.action, plan.offset) == (RestoreAction.RESUME, 2)
    again.apply(batch([Record(2, b"c", b"3")]))
    assert values(again) == {b"a": b"1", b"b": b"2", b"c": b"3"}


def test_the_position_is_in_the_same_write_as_the_rows(make: Callable[[], Replica], storage: RocksDBStorage) -> None:
    replica = make()
    replica.open(log_of(0, 9))
    replica.apply(batch([Record(4, b"a", b"1")]))
    replica.close()
    store = storage.open(ID)
    found = store.metadata(METADATA_KEY)
    store.close()
    assert found is not None
    assert Checkpoint.decode(found).offset == 5


def test_a_replayed_batch_changes_nothing_and_the_position_never_goes_back(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 3))
    records = [Record(0, b"a", b"1"), Record(1, b"a", b"2"), Record(2, b"b", b"3")]
    replica.apply(batch(records))
    replica.apply(batch(records[:1] + records[1:2]))
    assert replica.offset == 3


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (log_of(0, 3, topic_id="id-2"), RestoreReason.TOPIC_RECREATED),
        (log_of(0, 1), RestoreReason.AHEAD_OF_LOG),
        (log_of(3, 9), RestoreReason.BELOW_LOG_START),
    ],
)
def test_rows_that_do_not_fit_the_log_are_gone_after_opening(
    make: Callable[[], Replica], log: object, reason: RestoreReason
) -> None:
    first = make()
    first.open(log_of(0, 2))
    first.apply(batch([Record(0, b"stale", b"1"), Record(1, b"b", b"2")], end=True))
    first.close()

    again = make()
    plan = again.open(log)  # type: ignore[arg-type]
    assert (plan.action, plan.reason) == (RestoreAction.WIPE, reason)
    again.apply(batch([], next_offset=max(plan.end_offset or 0, plan.offset), end=True))
    assert values(again) == {}


def test_rows_behind_for_longer_than_tombstones_are_kept_are_rebuilt(
    make: Callable[[], Replica], clock: ManualClock
) -> None:
    first = make()
    first.open(log_of(0, 2))
    first.apply(batch([Record(0, b"deleted-since", b"1"), Record(1, b"b", b"2")], end=True))
    first.close()
    clock.advance(DAY_MS)
    plan = make().open(log_of(0, 9))
    assert plan.reason is RestoreReason.TOMBSTONES_EXPIRED


def test_a_follower_that_hangs_for_longer_than_tombstones_are_kept_applies_nothing(
    make: Callable[[], Replica], clock: ManualClock
) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    clock.advance(DAY_MS)
    with pytest.raises(TombstonesExpiredError):
        replica.apply(batch([Record(7, b"a", b"2")]))
    assert replica.offset == 1


def test_looking_at_the_log_keeps_idle_rows_good(make: Callable[[], Replica], clock: ManualClock) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    clock.advance(DAY_MS - 1)
    replica.check(log_of(0, 1))
    clock.advance(DAY_MS - 1)
    replica.apply(batch([Record(1, b"a", b"2")], end=True))
    assert values(replica) == {b"a": b"2"}


class JumpingClock(ManualClock):
    """A clock whose wall-clock time can be set."""

    jumped_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jumped_ms


@pytest.mark.parametrize("jump_ms", [DAY_MS + 3_600_000, -DAY_MS])
def test_a_jump_of_the_wall_clock_drops_no_rows(storage: ReplicaStorage, jump_ms: int) -> None:
    clock = JumpingClock(1_700_000_000_000)
    replica = make_replica(storage, clock)
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    clock.jumped_ms = jump_ms
    replica.check(log_of(0, 2))
    replica.apply(batch([Record(1, b"b", b"2")], end=True))
    assert replica.open(log_of(0, 3)).action is RestoreAction.RESUME
    replica.close()
    again = make_replica(storage, clock)
    assert again.open(log_of(0, 3)).action is RestoreAction.RESUME, "what is stored goes by the clock as it is now"
    again.close()


def test_rows_that_may_not_be_dropped_yet_are_served_as_they_were(storage: ReplicaStorage, clock: ManualClock) -> None:
    turn: list[bool] = []
    replica = make_replica(storage, clock, may_rebuild=lambda: bool(turn))
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    clock.advance(DAY_MS)
    with pytest.raises(TombstonesExpiredError):
        replica.apply(batch([Record(5, b"b", b"2")]))
    with pytest.raises(TombstonesExpiredError):
        replica.apply(batch([], 6))
    with pytest.raises(TombstonesExpiredError):
        replica.check(log_of(0, 6))
    assert (values(replica), replica.offset) == ({b"a": b"1"}, 1)
    turn.append(True)
    with pytest.raises(ChangelogMovedError):
        replica.check(log_of(0, 6))
    assert replica.open(log_of(0, 6)).reason is RestoreReason.TOMBSTONES_EXPIRED
    assert not replica.serving


def test_after_a_long_stop_the_old_rows_are_kept_for_stale_reads_until_the_turn(
    storage: ReplicaStorage, clock: ManualClock
) -> None:
    replica = make_replica(storage, clock)
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    replica.close()
    clock.advance(DAY_MS)
    replica = make_replica(storage, clock, may_rebuild=lambda: False)
    with pytest.raises(TombstonesExpiredError):
        replica.open(log_of(0, 2))
    assert not replica.serving
    found = replica.get(b"a", restoring=True)
    assert found is not None
    assert found.value == b"1"
    replica.close()


def test_looking_at_the_log_notices_a_topic_made_anew(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    with pytest.raises(ChangelogMovedError, match="recreated"):
        replica.check(log_of(0, 1, topic_id="id-2"))
    assert not replica.serving
    with pytest.raises(StoreRestoringError):
        replica.get(b"a", restoring=True)


@pytest.mark.parametrize("topic_id", [None, "id-2"])
def test_the_end_of_another_topic_proves_nothing(
    make: Callable[[], Replica], clock: ManualClock, topic_id: str | None
) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    fresh_at_s = clock.monotonic_s()
    assert not replica.heard_end(replica.request(fresh_at_s), LogEnd("id-1", 1))
    clock.advance(1000)
    late = replica.request(clock.monotonic_s())
    assert replica.heard_end(late, LogEnd(topic_id, 1))
    assert replica.log_changed
    assert (replica.tracker.fresh_at_s, replica.offset_lag, replica.tracker.end(0.0)) == (fresh_at_s, None, None)
    assert not replica.heard_end(late, LogEnd(topic_id)), "it is no news any more"


def test_an_answer_about_the_topic_of_before_is_not_taken_for_the_new_one(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 0))
    request = replica.request(1.0)
    replica.open(log_of(0, 0, topic_id="id-2"))
    for found in (LogEnd("id-1", 0), LogEnd("id-2", 0)):
        assert not replica.heard_end(request, found)
    assert not replica.log_changed
    assert replica.tracker.fresh_at_s is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_record_stops_a_replica(make: Callable[[], Replica], kind: Kind) -> None:
    row = {} if kind.reason is not None or kind.key is None or kind.value is None else {kind.key: kind.value}
    followed = make()
    followed.open(log_of(0, 1))
    followed.apply(batch([Record(0, b"a", b"1")], end=True))
    followed.apply(batch([kind.record(1), Record(2, b"b", b"2")], end=True))
    assert values(followed) == {b"a": b"1", b"b": b"2", **row}
    wanted = SkippedTotals() if kind.reason is None else SkippedTotals({kind.reason.value: 1}, 1)
    assert followed.status().skipped == wanted
    followed.close()

    again = make()
    assert again.open(log_of(0, 3)).action is RestoreAction.RESUME
    assert again.serving
    assert values(again) == {b"a": b"1", b"b": b"2", **row}
    assert again.status().skipped == wanted


def test_a_restore_and_a_follower_hold_the_same_rows_of_a_log_with_bad_records(
    make: Callable[[], Replica], storage: RocksDBStorage
) -> None:
    records = [
        entry
        for number, kind in enumerate(KINDS)
        for entry in (
            Record(3 * number, kind.key, b"older"),
            kind.record(3 * number + 1),
            Record(3 * number + 2, b"%d" % number, b"x"),
        )
        if entry.key() is not None or entry.at % 3 == 1
    ]
    found = []
    for size in (1, 7, len(records)):
        replica = make()
        replica.open(log_of(0, records[-1].at + 1))
        for start in range(0, len(records), size):
            replica.apply(batch(records[start : start + size]))
        assert replica.serving
        found.append((values(replica), replica.status().skipped))
        replica.close()
        storage.wipe(ID)
    assert found[0] == found[1] == found[2]
    assert found[0][0] == ROWS | {b"%d" % number: b"x" for number in range(len(KINDS))}
    assert found[0][1].records == len(SKIPPED)


def test_a_replayed_batch_counts_its_skipped_records_once(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 9))
    records = [Record(0, b"a", b"1", record_headers=None), Record(1, b"b", b"2")]
    replica.apply(batch(records))
    replica.apply(batch([*records, Record(2, b"c", b"3", record_headers=None)]))
    assert replica.status().skipped == SkippedTotals({"no-schema-version": 2}, 2)


def test_skipped_records_are_logged_by_reason_without_their_content(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 9))
    with structlog.testing.capture_logs() as logs:
        replica.apply(batch([Record(at, b"secret-key", b"secret", record_headers=None) for at in range(5000)]))
    (line,) = [entry for entry in logs if entry["event"] == "changelog_records_skipped"]
    del line["event"], line["log_level"]
    assert line == {
        "topic": "t",
        "partition": 0,
        "reason": "no-schema-version",
        "records": 5000,
        "first_offset": 0,
        "last_offset": 4999,
    }


def test_a_suspended_replica_goes_on_answering(make: Callable[[], Replica]) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    replica.suspend(DiskFullError("no space"))
    assert state_of(replica) is ReplicaState.SUSPENDED
    assert values(replica) == {b"a": b"1"}
    assert replica.resume() == 1
    assert state_of(replica) is ReplicaState.RUNNING


def test_a_suspended_restore_does_not_answer(make: Callable[[], Replica], listener: RecordingListener) -> None:
    replica = make()
    replica.open(log_of(0, 5))
    replica.suspend(DiskFullError("no space"))
    with pytest.raises(StoreUnavailableError, match="no space"):
        replica.get(b"a")
    assert listener.events[-1][0] == "suspended"
    assert replica.resume() == 0
    assert state_of(replica) is ReplicaState.RESTORING


def test_a_row_damaged_at_rest_is_never_returned(make: Callable[[], Replica], storage: RocksDBStorage) -> None:
    first = make()
    first.open(log_of(0, 1))
    first.apply(batch([Record(0, b"a", b"value")], end=True))
    first.close()
    store = storage.open(ID)
    row = store.get(b"a")
    assert row is not None
    store.write([(b"a", row[:-1] + bytes([row[-1] ^ 1]))])
    store.close()

    replica = make()
    replica.open(log_of(0, 1))
    with pytest.raises(StoreCorruptedError):
        replica.get(b"a")
    assert replica.damaged
    replica.set_aside()
    assert replica.open(log_of(0, 1)).action is RestoreAction.REPLAY
    assert not replica.damaged


def test_rows_that_are_to_be_erased_are_not_set_aside(
    make: Callable[[], Replica], storage: RocksDBStorage, tmp_path: Path
) -> None:
    replica = make()
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"value")], end=True))
    replica.doubt(for_good=True)
    replica.set_aside()
    assert storage.set_aside_ms(ID) is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert replica.open(log_of(0, 1)).action is RestoreAction.REPLAY
    replica.doubt()
    replica.set_aside()
    assert storage.set_aside_ms(ID) is not None, "a later doubt keeps the rows"


def test_a_damaged_checkpoint_is_corruption(make: Callable[[], Replica], storage: RocksDBStorage) -> None:
    store = storage.open(ID)
    store.write([(b"a", b"x")], {METADATA_KEY: b"{"})
    store.close()
    with pytest.raises(StoreCorruptedError):
        make().open(log_of(0, 1))


def test_rows_without_checkpoint_are_wiped(make: Callable[[], Replica], storage: RocksDBStorage) -> None:
    store = storage.open(ID)
    store.write([(b"a", b"x")])
    store.close()
    assert make().open(log_of(0, 1)).reason is RestoreReason.NO_CHECKPOINT


def test_memory_is_restored_anew_after_each_opening(clock: ManualClock) -> None:
    storage: ReplicaStorage = MemoryStorage()
    replica = make_replica(storage, clock)
    replica.open(log_of(0, 1))
    replica.apply(batch([Record(0, b"a", b"1")], end=True))
    assert replica.open(log_of(0, 1)).action is RestoreAction.REPLAY
    replica.close()
