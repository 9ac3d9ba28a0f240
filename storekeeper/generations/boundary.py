"""Setting the end of a stopped query's next batch, in its checkpoint.

A query runs whatever batch is planned there, after a restart too. So a plan for a stopped query makes its next batch
end at an offset of our choice, and deleting one cancels a batch that was planned and never begun. This brings two
generations to exactly the same input position.
"""

from __future__ import annotations

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.locations import delete_tree


def begin_behind(checkpoint: BatchCheckpoint, start: Position, query_id: str) -> None:
    """Makes the checkpoint of a query whose first batch is 1 and begins at `start`. Replaces what was there.

    Batch 0 stands for the seed of the query's state. The query has never been started; its input begins at `start`.
    """
    delete_tree(checkpoint.path)
    checkpoint.begin(query_id)
    checkpoint.plan(0, start, start)
    checkpoint.commit(0)


def is_settled(checkpoint: BatchCheckpoint) -> bool:
    """Whether every planned batch is finished, and there is one."""
    planned = checkpoint.last_planned_batch()
    return planned is not None and planned == checkpoint.last_committed_batch()


def take_back(checkpoint: BatchCheckpoint, last: int) -> None:
    """Deletes the plan of the batch after `last`, if there is one. It must never have begun; the query must be stopped.

    Safe to repeat.
    """
    planned, folder = checkpoint.last_planned_batch(), checkpoint.path / "offsets"
    if planned is not None and planned > last:
        (folder / str(planned)).unlink(missing_ok=True)


def plan_batch(checkpoint: BatchCheckpoint, batch_id: int, end: Position) -> None:
    """Plans the batch after the last finished one, to end at `end`. The query must be stopped. Safe to repeat.

    Raises:
        GenerationRefusedError: another batch is planned, `end` lies before the end of what is finished, or it has a
            partition that no finished batch knew.
    """
    if checkpoint.last_planned_batch() == batch_id and checkpoint.end_position(batch_id) == end:
        return
    before = checkpoint.last_committed_batch()
    if before is None or before + 1 != batch_id or checkpoint.last_planned_batch() != before:
        msg = f"{checkpoint.path} has a batch under way: let it finish, then take the step again"
        raise GenerationRefusedError(msg)
    finished = checkpoint.end_position(before)
    if not end.reaches(finished):
        raise GenerationRefusedError(f"{checkpoint.path} has read beyond the place where it is to be handed over")
    # Where the other generation began to read a partition, no file of this one says.
    if unread := sorted({topic for topic, partition, _ in end if finished.offset(topic, partition) is None}):
        raise GenerationRefusedError(
            f"{checkpoint.path} has no batch yet that reads all of {', '.join(unread)}, as the other generation does: "
            "restart the app, let it run a batch, then take the step again"
        )
    checkpoint.plan(batch_id, finished, end)
