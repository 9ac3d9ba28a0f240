from __future__ import annotations

import pytest

from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch, TimesBesideBatches, planned_batches
from storekeeper.locations import Location, write_in_one_step
from tests.apps.checkpoints import write_checkpoint

ENDS = [{"pos": {"0": 10, "1": 20}}, {"pos": {"0": 15, "1": 20}}, {"pos": {"0": 15, "1": 25, "2": 4}}]


def at(offset: int) -> Position:
    return Position({"pos": {0: offset}})


@pytest.fixture
def checkpoint(place: Location) -> BatchCheckpoint:
    write_checkpoint(place / "c", ENDS, committed=2, initial={"pos": {"0": 3, "1": 0}})
    return BatchCheckpoint(place / "c")


def test_a_folder_that_is_not_there_has_no_past(place: Location) -> None:
    checkpoint = BatchCheckpoint(place / "none")
    assert checkpoint.query_id() is None
    assert checkpoint.last_planned_batch() is None
    assert checkpoint.last_committed_batch() is None
    assert checkpoint.committed_position() == Position()


def test_planned_and_committed_batches_are_told_apart(checkpoint: BatchCheckpoint) -> None:
    assert checkpoint.query_id() == "d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11"
    assert (checkpoint.last_planned_batch(), checkpoint.last_committed_batch()) == (2, 1)
    assert checkpoint.committed_position() == Position({"pos": {0: 15, 1: 20}})
    assert checkpoint.end_position(2) == Position({"pos": {0: 15, 1: 25, 2: 4}})


def test_batches_are_compared_as_numbers(place: Location) -> None:
    write_checkpoint(place / "c", [ENDS[0]] * 12, committed=11, initial=None)
    assert BatchCheckpoint(place / "c").last_committed_batch() == 10


def test_a_batch_ranges_from_the_end_of_the_one_before(checkpoint: BatchCheckpoint) -> None:
    assert checkpoint.source_ranges(0) == {"pos": {0: (3, 10), 1: (0, 20)}}
    assert checkpoint.source_ranges(1) == {"pos": {0: (10, 15), 1: (20, 20)}}


def test_a_new_partition_is_read_from_where_it_began_when_the_batch_was_planned(checkpoint: BatchCheckpoint) -> None:
    assert checkpoint.source_ranges(2) == {"pos": {0: (15, 15), 1: (20, 25), 2: (0, 4)}}
    checkpoint.commit(2)
    end = checkpoint.committed_position().merged(Position({"clicks": {0: 5020}}))
    checkpoint.plan(3, checkpoint.committed_position().merged(Position({"clicks": {0: 5000}})), end)
    assert checkpoint.source_ranges(3)["clicks"] == {0: (5000, 5020)}
    assert checkpoint.start_position(3).offset("clicks", 0) == 5000
    assert checkpoint.start_position(2) == Position({"pos": {0: 15, 1: 20, 2: 0}})


def test_before_the_first_commit_the_position_is_where_the_first_batch_begins(place: Location) -> None:
    write_checkpoint(place / "c", ENDS[:1], committed=0, initial={"pos": {"0": 3}})
    assert BatchCheckpoint(place / "c").committed_position() == Position({"pos": {0: 3}})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        "nonsense",
        '{"at_ms":1}',
        '{"at_ms":1,"start":{},"end":7}',
        '{"at_ms":1,"end":{"pos":{"0":15}}}',
        '{"at_ms":1,"start":{"pos":{"1":0}},"end":{"pos":{"0":15}}}',
    ],
)
def test_damage_is_reported_with_a_way_out(checkpoint: BatchCheckpoint, content: str) -> None:
    (checkpoint.path / "offsets" / "1").write_bytes(content.encode())
    with pytest.raises(UnusableCheckpointError, match="start a new generation"):
        checkpoint.committed_position()


def test_damaged_metadata_is_reported(checkpoint: BatchCheckpoint) -> None:
    (checkpoint.path / "metadata").write_bytes(b"{}")
    with pytest.raises(UnusableCheckpointError, match="metadata"):
        checkpoint.query_id()


def test_files_of_batches_long_finished_are_deleted(place: Location) -> None:
    checkpoint = BatchCheckpoint(place / "c")
    for batch_id in range(12):
        checkpoint.plan(batch_id, at(batch_id), at(batch_id + 1))
        checkpoint.commit(batch_id, kept=3)
    assert [checkpoint.plans(batch_id) for batch_id in (8, 9, 11)] == [False, True, True]
    assert checkpoint.source_ranges(11) == {"pos": {0: (11, 12)}}


def test_each_batch_has_a_time_later_than_that_of_the_batch_before(place: Location) -> None:
    """Also if the clock has been set back since."""
    checkpoint, far_ahead_ms = BatchCheckpoint(place / "c"), 10**14
    checkpoint.plan(0, at(0), at(1), far_ahead_ms)
    checkpoint.plan(1, at(1), at(2))
    assert [checkpoint.planned_at_ms(batch) for batch in (0, 1)] == [far_ahead_ms, far_ahead_ms + 1]


def test_what_is_written_beside_a_batch_has_no_later_time_than_the_batch(place: Location) -> None:
    checkpoint, clock = BatchCheckpoint(place / "c"), ManualClock(1000)
    times = TimesBesideBatches(checkpoint, clock)
    assert times() == 1000, "no batch yet"
    checkpoint.plan(0, at(0), at(1), 1100)
    clock.advance(199)
    assert times() == 1000, "what was last looked at"
    clock.advance(501)
    assert times() == 1100
    checkpoint.commit(0)
    clock.advance(300)
    assert times() == 2000
    checkpoint.plan(1, at(1), at(2), 10**14)
    clock.advance(300)
    assert times() == 2300, "a batch whose clock is ahead"


def test_the_last_committed_batch_decides(place: Location) -> None:
    assert CommittedBatch.of(BatchCheckpoint(place / "none"), 1) is None
    write_checkpoint(place / "c", [{"pos": {"0": 5}}, {"pos": {"0": 8}}], committed=1, initial=None)
    assert CommittedBatch.of(BatchCheckpoint(place / "c"), 1) == CommittedBatch(1, 0, Position({"pos": {0: 5}}), 1_000)


def test_what_is_planned_is_known_by_generation(place: Location) -> None:
    for folder, batches in {"gen-1": (3, 9), "gen-2": (0,), "gen-3": (), "gen-2.upstream": (5,), "gen-x": (7,)}.items():
        for batch_id in batches:
            write_in_one_step(place / folder / "offsets" / str(batch_id), b"{}")
    assert planned_batches(BatchCheckpoint(place / "gen-1")) == {1: 9, 2: 0}
