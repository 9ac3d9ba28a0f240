from __future__ import annotations

import pytest

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.topics import TopicBounds
from storekeeper.errors import ChangelogError
from storekeeper.locations import Location, write_in_one_step
from storekeeper.snapshots.changes import ChangelogRange, CommittedBatch, planned_batches, range_to_fold
from storekeeper.snapshots.manifest import SnapshotManifest
from tests.apps.checkpoints import write_checkpoint

BOUNDS = TopicBounds(Position({"c": {0: 0, 1: 2}}), Position({"c": {0: 9, 1: 2}}))


def manifest(offsets: dict[int, int]) -> SnapshotManifest:
    return SnapshotManifest("rewards", "pos", 1, 1, "c", offsets, Position(), 0, {}, "test", 0)


def test_the_first_fold_reads_the_whole_topic() -> None:
    assert range_to_fold("c", None, BOUNDS) == ChangelogRange("c", {0: 0, 1: 2}, {0: 9, 1: 2})


def test_later_folds_go_on_where_the_last_one_ended() -> None:
    found = range_to_fold("c", manifest({0: 4, 1: 2}), BOUNDS)
    assert found == ChangelogRange("c", {0: 4, 1: 2}, {0: 9, 1: 2})
    assert not found.is_empty
    assert range_to_fold("c", manifest({0: 9, 1: 2}), BOUNDS).is_empty


@pytest.mark.parametrize("offsets", [{0: 10, 1: 2}, {0: 4, 1: 1}, {0: 4, 1: 2, 2: 0}])
def test_a_table_that_does_not_fit_the_topic_is_refused(offsets: dict[int, int]) -> None:
    with pytest.raises(ChangelogError, match="move the table rewards away"):
        range_to_fold("c", manifest(offsets), BOUNDS)


def test_the_last_committed_batch_decides(place: Location) -> None:
    assert CommittedBatch.of(BatchCheckpoint(place / "none"), 1) is None
    write_checkpoint(place / "c", [{"pos": {"0": 5}}, {"pos": {"0": 8}}], committed=1, initial=None)
    assert CommittedBatch.of(BatchCheckpoint(place / "c"), 1) == CommittedBatch(1, 0, Position({"pos": {0: 5}}), 1_000)


def test_what_is_planned_is_known_by_generation(place: Location) -> None:
    for folder, batches in {"gen-1": (3, 9), "gen-2": (0,), "gen-3": (), "gen-2.upstream": (5,), "gen-x": (7,)}.items():
        for batch_id in batches:
            write_in_one_step(place / folder / "offsets" / str(batch_id), b"{}")
    assert planned_batches(BatchCheckpoint(place / "gen-1")) == {1: 9, 2: 0}
