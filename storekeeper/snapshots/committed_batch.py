"""The batch that a snapshot ends with: the last one that its app has finished; and how far the tasks were then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from storekeeper.changelog.position import Position
from storekeeper.engine.markers import markers_after
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.topics import Topics
from storekeeper.kafka.connection import Kafka
from storekeeper.locations import entries
from storekeeper.names import markers_topic

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


TaskProgress = Mapping[str, Mapping[str, str]]
"""What tasks need to go on after a batch, beside their rows: stream times and timers, as JSON by slot and partition."""


def progress_after(kafka: Kafka, checkpoint: BatchCheckpoint, app: str, batch: CommittedBatch) -> TaskProgress:
    """The progress of an app's tasks after a batch; empty if it is not known any more, or the app has no tasks.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """
    claim, query_id = CheckpointOwner.read(checkpoint.path), checkpoint.query_id()
    if claim is None or query_id is None:
        return {}
    topics = {slot: markers_topic(app, batch.generation, slot) for slot in claim.slots}
    there = {*Topics(kafka).names()}.intersection(topics.values())
    progress: dict[str, dict[str, str]] = {}
    for slot, topic in topics.items():
        markers = markers_after(kafka, topic, query_id, batch.batch_id) if topic in there else None
        if markers is None:
            return {}
        progress[slot] = {str(partition): marker.progress.decode() for partition, marker in sorted(markers.items())}
    return progress


def planned_batches(checkpoint: BatchCheckpoint) -> dict[int, int]:
    """The newest planned batch of each generation of an app, by the checkpoints beside this one."""
    folders = [path for path in entries(checkpoint.path.parent) if _GENERATION.fullmatch(path.name)]
    checkpoints = {int(path.name.removeprefix("gen-")): BatchCheckpoint(path) for path in folders}
    return {
        generation: planned
        for generation, one in checkpoints.items()
        if (planned := one.last_planned_batch()) is not None
    }
