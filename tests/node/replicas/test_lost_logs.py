"""Rows of which the log has lost the records: they are kept, and no answer says that they never were."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.waiting import eventually
from storekeeper.changelog.log_ends import LogEnd
from storekeeper.clock import ManualClock
from storekeeper.errors import StoreUnavailableError
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaState
from tests.changelog.messages import Record
from tests.node.replicas.fake_log import FakeLog
from tests.node.replicas.following import followed, make, rows


@pytest.fixture
def storage(tmp_path: Path) -> RocksDBStorage:
    return RocksDBStorage(tmp_path / "state", ManualClock(1))


def test_the_rows_of_a_lost_topic_stay_until_another_one_is_accepted(storage: RocksDBStorage) -> None:
    log = FakeLog()
    log.append(0, b"old", b"1")
    (replica,) = make(storage, ManualClock(1))
    replica.known_topic_id = log.topic_id
    with followed(replica, log):
        eventually(lambda: replica.serving, 30, "it serves the old topic")
        log.topic_id, log.records = "id-2", {0: [Record(0, b"new", b"2")], 1: []}
        replica.heard_end(replica.request(0.0), LogEnd("id-2"))
        eventually(lambda: replica.state is ReplicaState.FAILED, 30, "it says that its topic is lost")
        assert rows(replica) == {b"old": b"1"}
        assert "was deleted and recreated" in (replica.status().error or "")
        replica.goes_by("id-1", "the whole story")
        assert replica.status().error == "the whole story"
        replica.goes_by(log.topic_id, None)
        eventually(lambda: replica.serving and rows(replica) == {b"new": b"2"}, 30, "it serves the new topic")


def test_the_rows_of_a_topic_lost_while_the_node_was_away_are_kept_and_not_served(storage: RocksDBStorage) -> None:
    log = FakeLog()
    log.append(0, b"old", b"1")
    (before,) = make(storage, ManualClock(1))
    with followed(before, log):
        eventually(lambda: before.serving, 30, "it serves the old topic")
    known, log.topic_id, log.records = log.topic_id, "id-2", {0: []}
    (replica,) = make(storage, ManualClock(1))
    replica.known_topic_id = known
    with followed(replica, log):
        eventually(lambda: replica.state is ReplicaState.FAILED, 30, "it says that its topic is lost")
        assert not replica.serving
    store = storage.open(replica.replica_id)
    try:
        assert store.get(b"old") is not None
    finally:
        store.close()


def test_the_rows_that_an_older_copy_of_the_log_lacks_are_kept_and_served(storage: RocksDBStorage) -> None:
    log = FakeLog()
    for key in (b"a", b"b", b"c"):
        log.append(0, key, b"1")
    whole = list(log.records[0])
    (replica,) = make(storage, ManualClock(1))
    replica.goes_by(log.topic_id, None)
    with followed(replica, log):
        eventually(lambda: replica.serving, 30, "it serves all rows")
        log.records[0], log.moved[0] = whole[:1], "offset out of range"
        eventually(lambda: replica.state is ReplicaState.FAILED, 30, "it says that records are lost")
        assert replica.lost == replica.status().error
        assert "ends at offset 1, and the rows of this node at 3" in (replica.lost or "")
        assert rows(replica) == {b"a": b"1", b"b": b"1", b"c": b"1"}
        assert list(replica.get_many([b"x", b"a"])) == [b"a"], "nobody knows that there is no row of x"
        with pytest.raises(StoreUnavailableError, match="Kafka has lost records"):
            replica.get(b"x")
        replica.goes_by(log.topic_id, None)
        assert replica.lost is not None, "the topic is there, its records aren't"
        log.records[0] = [*whole, Record(3, b"d", b"1")]
        eventually(lambda: replica.lost is None and b"d" in rows(replica), 30, "it goes on once they are back")
        assert replica.get(b"x") is replica.get_many([b"x"])[b"x"] is None


def test_a_new_disk_answers_nothing_while_another_node_has_rows_that_the_log_has_lost(storage: RocksDBStorage) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    (replica,) = make(storage, ManualClock(1))
    with followed(replica, log):
        eventually(lambda: replica.serving, 30, "it takes what is left of the log")
        replica.compare(0)
        replica.compare(1)
        assert (replica.serving, replica.lost) == (True, None), "another node has as much"
        replica.compare(3)
        assert not replica.serving
        assert "another node has rows of them up to offset 3" in (replica.lost or "")
        assert replica.rows_to is None, "its own rows are no reason for others to wait"
        log.append(0, b"b", b"1")
        eventually(lambda: replica.offset == 2, 30, "it follows")
        assert not replica.serving
        replica.compare(2)
        assert (replica.serving, replica.lost) == (True, None)


def test_a_new_disk_that_restores_does_not_begin_to_answer(storage: RocksDBStorage) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    (replica,) = make(storage, ManualClock(1))
    replica.compare(3)
    with followed(replica, log):
        eventually(lambda: replica.offset == 1, 30, "it has read what is left")
        assert not replica.serving


def test_a_node_says_how_far_its_rows_reach_if_the_log_has_lost_some(storage: RocksDBStorage) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    log.append(0, b"b", b"1")
    for start in range(2):
        (replica,) = make(storage, ManualClock(1))
        replica.goes_by(log.topic_id, None)
        with followed(replica, log):
            eventually(lambda: replica.state is not ReplicaState.CREATED, 30, "it was opened")  # noqa: B023
            if start == 0:
                eventually(lambda: replica.offset == 2, 30, "it has all rows")  # noqa: B023
                assert replica.rows_to is None
                log.records[0], log.moved[0] = log.records[0][:1], "offset out of range"
            eventually(lambda: replica.state is ReplicaState.FAILED, 30, "it says that records are lost")  # noqa: B023
            assert replica.rows_to == 2
            replica.compare(2)
            assert replica.serving is (start == 0), "an open replica has what the other node has"


@pytest.mark.parametrize("left", [0, 1])
def test_the_rows_that_an_older_copy_of_the_log_lacks_are_kept_over_restarts(
    storage: RocksDBStorage, left: int
) -> None:
    log = FakeLog()
    log.append(0, b"a", b"1")
    log.append(0, b"b", b"1")
    (before,) = make(storage, ManualClock(1))
    with followed(before, log):
        eventually(lambda: before.serving, 30, "it serves all rows")
    whole, log.records[0] = log.records[0], log.records[0][:left]
    (replica,) = make(storage, ManualClock(1))
    replica.goes_by(log.topic_id, None)
    with followed(replica, log):
        eventually(lambda: replica.state is ReplicaState.FAILED, 30, "it says that records are lost")
        assert (replica.serving, replica.lost is None) == (False, False)
        log.records[0] = whole
        eventually(lambda: replica.serving, 30, "it serves once the newer copy is back")
        assert rows(replica) == {b"a": b"1", b"b": b"1"}
    assert log.added[-1] == (0, 2), "no row was dropped"
