from __future__ import annotations

import pytest

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.generations.boundary import begin_behind, is_settled, plan_batch, take_back
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.locations import Location, write_in_one_step
from tests.apps.checkpoints import write_checkpoint

ENDS = [{"pos": {"0": 10, "1": 5}}, {"pos": {"0": 20, "1": 5}}, {"pos": {"0": 30, "1": 9}}]


def at(first: int, second: int) -> Position:
    return Position({"pos": {0: first, 1: second}})


def stopped(path: Location, *, planned: int = 2, committed: int = 2) -> BatchCheckpoint:
    write_checkpoint(path, ENDS[:planned], committed=committed, initial={"pos": {"0": 1, "1": 0}})
    return BatchCheckpoint(path)


def test_a_planned_batch_ends_where_it_was_told_and_begins_where_the_last_one_ended(place: Location) -> None:
    checkpoint = stopped(place / "gen-2")
    plan_batch(checkpoint, 2, at(23, 8))
    assert checkpoint.end_position(2) == at(23, 8)
    assert checkpoint.source_ranges(2) == {"pos": {0: (20, 23), 1: (5, 8)}}
    assert not is_settled(checkpoint)


def test_planning_is_safe_to_repeat_but_not_to_change(place: Location) -> None:
    checkpoint = stopped(place / "gen-2")
    plan_batch(checkpoint, 2, at(23, 8))
    plan_batch(checkpoint, 2, at(23, 8))
    with pytest.raises(GenerationRefusedError, match="has a batch under way"):
        plan_batch(checkpoint, 2, at(24, 8))
    assert checkpoint.end_position(2) == at(23, 8)


@pytest.mark.parametrize("batch_id", [1, 3])
def test_only_the_next_batch_can_be_planned(place: Location, batch_id: int) -> None:
    with pytest.raises(GenerationRefusedError, match="has a batch under way"):
        plan_batch(stopped(place / "gen-2"), batch_id, at(23, 8))


def test_nothing_is_planned_before_the_first_batch(place: Location) -> None:
    with pytest.raises(GenerationRefusedError, match="has a batch under way"):
        plan_batch(stopped(place / "gen-2", planned=0, committed=0), 0, at(23, 8))


def test_a_batch_does_not_end_before_what_was_read(place: Location) -> None:
    checkpoint = stopped(place / "gen-2")
    with pytest.raises(GenerationRefusedError, match="has read beyond the place"):
        plan_batch(checkpoint, 2, at(19, 8))
    assert checkpoint.last_planned_batch() == 1


def test_a_topic_that_the_query_does_not_read_yet_is_not_left_out(place: Location) -> None:
    checkpoint = stopped(place / "gen-2")
    with pytest.raises(GenerationRefusedError, match="has no batch yet that reads all of returns, as the other"):
        plan_batch(checkpoint, 2, at(23, 8).merged(Position({"returns": {0: 4}})))
    with pytest.raises(GenerationRefusedError, match="reads all of pos"):
        plan_batch(checkpoint, 2, at(23, 8).merged(Position({"pos": {2: 4}})))
    assert checkpoint.last_planned_batch() == 1


def test_a_batch_that_never_began_is_taken_back(place: Location) -> None:
    checkpoint = stopped(place / "gen-2", planned=3, committed=2)
    assert checkpoint.last_planned_batch() == 2
    take_back(checkpoint, 2)
    assert checkpoint.last_planned_batch() == 2
    take_back(checkpoint, 1)
    take_back(checkpoint, 1)
    assert is_settled(checkpoint)
    assert checkpoint.end_position(1) == at(20, 5)
    assert sorted(path.name for path in (checkpoint.path / "offsets").iterdir()) == ["0", "1"]
    plan_batch(checkpoint, 2, at(23, 8))


def test_before_the_first_batch_the_end_is_the_beginning(place: Location) -> None:
    checkpoint = stopped(place / "gen-2", planned=0, committed=0)
    assert checkpoint.initial_position() == at(1, 0)
    assert not is_settled(checkpoint)


def test_a_query_begins_behind_what_it_was_seeded_with(place: Location) -> None:
    path = place / "gen-2"
    write_in_one_step(path / "offsets" / "7", b"of an earlier attempt")
    checkpoint = BatchCheckpoint(path)
    begin_behind(checkpoint, at(20, 5).merged(Position({"own": {0: 0}})), "f7a3")
    assert checkpoint.query_id() == "f7a3"
    assert is_settled(checkpoint)
    assert checkpoint.committed_position() == at(20, 5).merged(Position({"own": {0: 0}}))
    plan_batch(checkpoint, 1, at(23, 8).merged(Position({"own": {0: 4}})))
    assert checkpoint.source_ranges(1) == {"pos": {0: (20, 23), 1: (5, 8)}, "own": {0: (0, 4)}}
