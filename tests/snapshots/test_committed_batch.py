"""The batch that snapshots end with."""

from __future__ import annotations

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.locations import Location, write_in_one_step
from storekeeper.snapshots.committed_batch import CommittedBatch, planned_batches
from tests.apps.checkpoints import write_checkpoint


def test_the_last_committed_batch_decides(place: Location) -> None:
    assert CommittedBatch.of(BatchCheckpoint(place / "none"), 1) is None
    write_checkpoint(place / "c", [{"pos": {"0": 5}}, {"pos": {"0": 8}}], committed=1, initial=None)
    assert CommittedBatch.of(BatchCheckpoint(place / "c"), 1) == CommittedBatch(1, 0, Position({"pos": {0: 5}}), 1_000)


def test_what_is_planned_is_known_by_generation(place: Location) -> None:
    for folder, batches in {"gen-1": (3, 9), "gen-2": (0,), "gen-3": (), "gen-2.upstream": (5,), "gen-x": (7,)}.items():
        for batch_id in batches:
            write_in_one_step(place / folder / "offsets" / str(batch_id), b"{}")
    assert planned_batches(BatchCheckpoint(place / "gen-1")) == {1: 9, 2: 0}
