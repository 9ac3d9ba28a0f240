"""The batch that a snapshot ends with: the last one that its app has finished."""

from __future__ import annotations

import re
from dataclasses import dataclass

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.locations import entries

_GENERATION = re.compile(r"gen-\d+")


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The last batch that an app finished, the end of its input, and its time. Records of later ones must wait."""

    generation: int
    batch_id: int
    source: Position
    at_ms: int

    @classmethod
    def of(cls, checkpoint: BatchCheckpoint, generation: int) -> CommittedBatch | None:
        """The batch of a checkpoint; None before the first is finished."""
        batch_id = checkpoint.last_committed_batch()
        if batch_id is None:
            return None
        return cls(generation, batch_id, checkpoint.end_position(batch_id), checkpoint.planned_at_ms(batch_id))


def planned_batches(checkpoint: BatchCheckpoint) -> dict[int, int]:
    """The newest planned batch of each generation of an app, by the checkpoints beside this one."""
    folders = [path for path in entries(checkpoint.path.parent) if _GENERATION.fullmatch(path.name)]
    checkpoints = {int(path.name.removeprefix("gen-")): BatchCheckpoint(path) for path in folders}
    return {
        generation: planned
        for generation, one in checkpoints.items()
        if (planned := one.last_planned_batch()) is not None
    }
