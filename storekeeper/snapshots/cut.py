"""Where to cut a changelog so that the snapshot is exactly what a committed batch left behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.engine.runtime.topics import TopicBounds
from storekeeper.errors import ChangelogError
from storekeeper.locations import entries
from storekeeper.snapshots.manifest import SnapshotManifest

_GENERATION = re.compile(r"gen-\d+")


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The last batch that an app finished, and the end of its input. Records of later batches must not be folded."""

    generation: int
    batch_id: int
    source: Position

    @classmethod
    def of(cls, checkpoint: SparkCheckpoint, generation: int) -> CommittedBatch | None:
        """The batch of a checkpoint; None before the first is finished."""
        batch_id = checkpoint.last_committed_batch()
        if batch_id is None:
            return None
        return cls(generation, batch_id, checkpoint.end_position(batch_id))


def planned_batches(checkpoint: SparkCheckpoint) -> dict[int, int]:
    """The newest planned batch of each generation of an app, by the checkpoints beside this one."""
    folders = [path for path in entries(checkpoint.path.parent) if _GENERATION.fullmatch(path.name)]
    found = {int(path.name.removeprefix("gen-")): SparkCheckpoint(path) for path in folders}
    return {
        generation: planned for generation, one in found.items() if (planned := one.last_planned_batch()) is not None
    }


@dataclass(frozen=True, slots=True)
class ChangelogRange:
    """A range of a changelog topic: next offsets by partition, the end exclusive."""

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]

    @property
    def is_empty(self) -> bool:
        """Whether there is no record in it."""
        return all(self.start[partition] >= end for partition, end in self.end.items())


def range_to_fold(topic: str, earlier: SnapshotManifest | None, bounds: TopicBounds) -> ChangelogRange:
    """The range from the end of the earlier snapshot, or the topic's beginning, to the topic's end.

    Raises:
        ChangelogError: the earlier snapshot ends outside of the topic's offsets.
    """
    start, end = dict(bounds.start.offsets[topic]), dict(bounds.end.offsets[topic])
    if earlier is None:
        return ChangelogRange(topic, start, end)
    for partition, reached in earlier.changelog_offsets.items():
        if not start.get(partition, 0) <= reached <= end.get(partition, -1):
            msg = (
                f"the snapshot of {earlier.store} ends at offset {reached} of {topic} partition {partition}, which "
                f"holds {start.get(partition)} to {end.get(partition)}: the topic was recreated or is cut off; "
                f"move the table {earlier.store} away, then take a snapshot from the beginning"
            )
            raise ChangelogError(msg)
    return ChangelogRange(topic, start | dict(earlier.changelog_offsets), end)
