"""Who runs which generation, how far, and when it holds: read from the journal alone.

Two processes may belong to an app. The one in role LIVE runs the generation that readers read; the one in role NEXT
runs the other one, be it on its way or kept for a roll-back. When the journal makes another generation live, the
processes change places.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.generations.boundary import is_settled
from spark_apps.generations.journal import Generation, GenerationState, Journal, TransferPhase
from state.changelog.position import Position

_RUNNABLE = frozenset({GenerationState.STARTED, GenerationState.VERIFIED, GenerationState.STANDBY})


class Role(StrEnum):
    """What a process of an app is for."""

    LIVE = "live"
    NEXT = "next"

    def program(self, app: str) -> str:
        """What the process is called: its lease, its heartbeat and its scratch folder bear this name."""
        return app if self is Role.LIVE else f"{app}-next"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process is to do.

    Attributes:
        generation: the one that it runs.
        holds: whether it is to stop between two batches and wait, once it has come as far as told.
        batch: the batch that it is to finish before, and after which no other may begin.
        position: the place of the input that it must have reached before.
    """

    generation: Generation
    holds: bool = False
    batch: int | None = None
    position: Position | None = None

    def reached(self, checkpoint: SparkCheckpoint, *, owed: int | None = None) -> bool:
        """Whether it has come as far as told. Only ever of orders to hold.

        `owed` is a batch that was planned when it began, and may have been begun by a process that died: that is to be
        finished, too.
        """
        if not self.holds:
            return False
        committed = checkpoint.last_committed_batch()
        wanted = [batch for batch in (self.batch, owed) if batch is not None]
        if wanted and (committed is None or committed < max(wanted)):
            return False
        return self.position is None or checkpoint.committed_position().reaches(self.position)

    def fulfilled(self, checkpoint: SparkCheckpoint) -> bool:
        """Whether nothing needs to run: it is where it was told to be, and no batch is under way there."""
        unused = checkpoint.last_planned_batch() is None
        return self.reached(checkpoint) and (unused or is_settled(checkpoint))


def orders_for(journal: Journal, role: Role) -> Orders | None:
    """What the process in that role is to do now; None if there is no generation for it."""
    generation = journal.live_generation if role is Role.LIVE else journal.other
    if generation is None or (role is Role.NEXT and generation.state not in _RUNNABLE):
        return None
    transfer = journal.transfer
    if transfer is None or generation.number not in {transfer.source, transfer.target}:
        return Orders(generation)
    phase = transfer.phase
    if generation.number == transfer.target:
        return Orders(generation, holds=True, batch=transfer.target_batch)
    if phase is TransferPhase.BEGUN:
        return Orders(generation)
    position = transfer.end if phase is TransferPhase.WAITING else None
    return Orders(generation, holds=True, batch=transfer.source_batch, position=position)
