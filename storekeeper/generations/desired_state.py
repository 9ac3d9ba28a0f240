"""Which process runs which generation, how far, and when it pauses. Only the journal decides.

An app may have two processes. The one in role LIVE runs the generation that readers read; the one in role NEXT
runs the other one, a candidate or the standby for a roll-back. When the journal makes another generation live, the
processes swap their generations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.generations.boundary import is_settled
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState, Journal, TransferPhase

_RUNNABLE = frozenset({GenerationState.STARTED, GenerationState.VERIFIED, GenerationState.STANDBY})


class Role(StrEnum):
    """The role of a process of an app."""

    LIVE = "live"
    NEXT = "next"

    def program(self, app: str) -> str:
        """The process's name, which its lease, its heartbeat and its scratch folder have too."""
        return app if self is Role.LIVE else f"{app}-next"


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What a process must do.

    Attributes:
        generation: the one that it runs.
        holds: whether it pauses between two batches once it has reached `batch` and `position`.
        batch: the batch that it must finish before it pauses; no later batch may begin.
        position: the input position that it must reach before it pauses.
    """

    generation: Generation
    holds: bool = False
    batch: int | None = None
    position: Position | None = None

    def reached(self, checkpoint: BatchCheckpoint, *, owed: int | None = None) -> bool:
        """Whether it has reached `batch` and `position`. Always False without `holds`.

        `owed` is a batch that was already planned when the query started. It must be finished too, because a process
        that crashed may have begun it.
        """
        if not self.holds:
            return False
        committed = checkpoint.last_committed_batch()
        batches = [batch for batch in (self.batch, owed) if batch is not None]
        if batches and (committed is None or committed < max(batches)):
            return False
        return self.position is None or checkpoint.committed_position().reaches(self.position)

    def fulfilled(self, checkpoint: BatchCheckpoint) -> bool:
        """Whether nothing needs to run: the state is reached, and no batch is unfinished."""
        unused = checkpoint.last_planned_batch() is None
        return self.reached(checkpoint) and (unused or is_settled(checkpoint))

    def last_batch(self, checkpoint: BatchCheckpoint) -> int | None:
        """The last batch that may begin; None if it is not known beforehand.

        Planned batches run first: a process that crashed may have begun them.
        """
        if not self.holds or self.position is not None:
            return None
        return checkpoint.last_planned_batch() if self.batch is None else self.batch


def desired_state_of(journal: Journal, role: Role) -> DesiredState | None:
    """The desired state of the process in that role; None if there is no generation for it."""
    generation = journal.live_generation if role is Role.LIVE else journal.other
    if generation is None or (role is Role.NEXT and generation.state not in _RUNNABLE):
        return None
    transfer = journal.transfer
    if transfer is None or generation.number not in {transfer.source, transfer.target}:
        return DesiredState(generation)
    phase = transfer.phase
    if generation.number == transfer.target:
        return DesiredState(generation, holds=True, batch=transfer.target_batch)
    if phase is TransferPhase.BEGUN:
        return DesiredState(generation)
    position = transfer.end if phase is TransferPhase.WAITING else None
    return DesiredState(generation, holds=True, batch=transfer.source_batch, position=position)


def generation_lease(app: str, number: int) -> str:
    """The name of the lease that is held while that generation of an app runs, or its checkpoint is changed."""
    return job_lease(app, f"gen-{number}")


def check_not_fixed(settings: AppSettings) -> None:
    """Refuses to change generations, or to run two, where a setting says which one runs: the journal doesn't know it.

    Raises:
        GenerationRefusedError: `generation` is set.
    """
    if settings.fixes_generation:
        raise GenerationRefusedError(
            f"the setting generation fixes generation {settings.generation} for all apps, and the journal doesn't know "
            "it: an app can only be migrated, and have a second generation, where the setting isn't used"
        )
