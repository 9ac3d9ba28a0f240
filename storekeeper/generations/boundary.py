"""Setting the end of a stopped query's next batch, in Spark's own offset log.

Spark plans a batch by writing `offsets/<n>` and runs whatever is planned there, after a restart too. So writing that
file for a stopped query makes its next batch end at an offset of our choice, and deleting it cancels a batch that was
planned and never begun. This brings two generations to exactly the same input position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.engine.runtime.checkpoint_sources import plan_of, with_end
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.locations import delete_tree, write_in_one_step


@dataclass(frozen=True, slots=True)
class BatchFiles:
    """What Spark wrote of a finished batch: its plan, and that it is committed.

    Spark keeps these files of its newest 100 batches alone.
    """

    plan: bytes
    commit: bytes

    @classmethod
    def of(cls, checkpoint: SparkCheckpoint, batch_id: int) -> BatchFiles:
        """Reads those of a finished batch.

        Raises:
            FileNotFoundError: Spark has deleted them.
        """
        folder, name = checkpoint.path, str(batch_id)
        return cls((folder / "offsets" / name).read_bytes(), (folder / "commits" / name).read_bytes())


def begin_behind(checkpoint: SparkCheckpoint, like: BatchFiles, starts: Iterable[Position], query_id: str) -> None:
    """Makes the checkpoint of a query whose first batch is 1 and begins at `starts`. Replaces what was there.

    Batch 0 stands for the seed of the query's state.

    Args:
        checkpoint: of the query, which has never been started.
        like: a finished batch of another query, whose settings are the same.
        starts: where the query's input begins, for each of its sources.
        query_id: the query's id.
    """
    delete_tree(checkpoint.path)
    write_in_one_step(checkpoint.path / "metadata", orjson.dumps({"id": query_id}))
    write_in_one_step(checkpoint.path / "offsets" / "0", plan_of(like.plan.decode(), starts).encode())
    write_in_one_step(checkpoint.path / "commits" / "0", like.commit)


def is_settled(checkpoint: SparkCheckpoint) -> bool:
    """Whether every planned batch is finished, and there is one."""
    planned = checkpoint.last_planned_batch()
    return planned is not None and planned == checkpoint.last_committed_batch()


def take_back(checkpoint: SparkCheckpoint, last: int) -> None:
    """Deletes the plan of the batch after `last`, if there is one. It must never have begun; the query must be stopped.

    Safe to repeat.
    """
    planned, folder = checkpoint.last_planned_batch(), checkpoint.path / "offsets"
    if planned is not None and planned > last:
        for name in (f".{planned}.crc", str(planned)):
            (folder / name).unlink(missing_ok=True)


def plan_batch(checkpoint: SparkCheckpoint, batch_id: int, end: Position) -> None:
    """Plans the batch after the last finished one, to end at `end`. The query must be stopped. Safe to repeat.

    Raises:
        GenerationRefusedError: another batch is planned, `end` lies before the end of what is finished, or it has a
            topic that no finished batch knew.
    """
    if checkpoint.last_planned_batch() == batch_id and checkpoint.end_position(batch_id) == end:
        return
    before = checkpoint.last_committed_batch()
    if before is None or before + 1 != batch_id or checkpoint.last_planned_batch() != before:
        msg = f"{checkpoint.path} has a batch under way: let it finish, then take the step again"
        raise GenerationRefusedError(msg)
    finished = checkpoint.end_position(before)
    if not end.reaches(finished):
        msg = f"{checkpoint.path} has read beyond the place where it is to be handed over"
        raise GenerationRefusedError(msg)
    if unread := sorted(end.offsets.keys() - finished.offsets.keys()):
        msg = (
            f"{checkpoint.path} has no batch yet that reads {', '.join(unread)}, as the other generation does: restart "
            "the app, let it run a batch, then take the step again"
        )
        raise GenerationRefusedError(msg)
    folder = checkpoint.path / "offsets"
    plan = with_end((folder / str(before)).read_bytes().decode(), end)
    write_in_one_step(folder / str(batch_id), plan.encode())
