"""What to do with local rows before following their changelog: a pure decision, made once per open.

| local rows                                    | log                                    | answer                     |
|-----------------------------------------------|----------------------------------------|----------------------------|
| none                                          | any                                    | `REPLAY` from its start    |
| some, without a checkpoint                    | any                                    | `WIPE`: unclean stop       |
| checkpoint of another topic or partition      | any                                    | `WIPE`: foreign            |
| checkpoint                                    | another topic id                       | `WIPE`: topic recreated    |
| checkpoint above the log's end                | any                                    | `WIPE`: log lost records   |
| checkpoint below the log's start              | any                                    | `WIPE`: gap                |
| not whole for longer than delete.retention.ms | has records after the checkpoint       | `WIPE`: tombstones gone    |
| checkpoint                                    | anything else                          | `RESUME` at the checkpoint |

`WIPE` is a replay from the log's start into an emptied store. Rows are a copy of the log, so it loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from storekeeper.changelog.checkpoint import Checkpoint


class RestoreAction(StrEnum):
    """The three ways to begin."""

    RESUME = "resume"
    REPLAY = "replay"
    WIPE = "wipe"


class RestoreReason(StrEnum):
    """Why; shown in logs and in the answers about replicas."""

    CHECKPOINT = "the checkpoint fits the log"
    EMPTY = "the store is empty"
    NO_CHECKPOINT = "rows without a checkpoint: the last stop was not clean"
    FOREIGN_CHECKPOINT = "the rows belong to another changelog partition"
    TOPIC_RECREATED = "the changelog topic was deleted and recreated"
    AHEAD_OF_LOG = "the rows are ahead of the log: the log has lost records"
    BELOW_LOG_START = "the log begins after the checkpoint: records in between are gone"
    TOMBSTONES_EXPIRED = "deletions since the last stop may have been removed from the log"


@dataclass(frozen=True, slots=True)
class LogState:
    """One changelog partition as the broker describes it now. Offsets: first present, and next to be written."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int
    delete_retention_ms: int


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """How to begin following.

    Attributes:
        action: whether the rows are kept.
        reason: why.
        offset: the first offset to read.
        end_offset: the restore is complete once the reader reaches this offset.
    """

    action: RestoreAction
    reason: RestoreReason
    offset: int
    end_offset: int

    @property
    def remaining(self) -> int:
        """At most this many records until the end."""
        return max(0, self.end_offset - self.offset)

    def completed_at(self, position: int) -> bool:
        """Whether a reader whose next offset is `position` has finished.

        Judged by position and never by a count: compaction and transaction markers leave gaps in the log.
        """
        return position >= self.end_offset


def plan_restore(checkpoint: Checkpoint | None, *, empty: bool, log: LogState, behind_ms: int) -> RestorePlan:
    """Decides how a store partition begins to follow its changelog. See the table above.

    Args:
        checkpoint: that of the store's metadata, or None.
        empty: whether the store holds no rows.
        log: the changelog partition now.
        behind_ms: the time since the rows were last known to equal the whole log.
    """
    if checkpoint is None:
        if empty:
            return RestorePlan(RestoreAction.REPLAY, RestoreReason.EMPTY, log.start_offset, log.end_offset)
        return RestorePlan(RestoreAction.WIPE, RestoreReason.NO_CHECKPOINT, log.start_offset, log.end_offset)
    mismatch = _mismatch(checkpoint, log, behind_ms)
    if mismatch is not None:
        return RestorePlan(RestoreAction.WIPE, mismatch, log.start_offset, log.end_offset)
    return RestorePlan(RestoreAction.RESUME, RestoreReason.CHECKPOINT, checkpoint.offset, log.end_offset)


def _mismatch(checkpoint: Checkpoint, log: LogState, behind_ms: int) -> RestoreReason | None:
    if (checkpoint.topic, checkpoint.partition) != (log.topic, log.partition):
        return RestoreReason.FOREIGN_CHECKPOINT
    if checkpoint.topic_id != log.topic_id:
        return RestoreReason.TOPIC_RECREATED
    if checkpoint.offset > log.end_offset:
        return RestoreReason.AHEAD_OF_LOG
    if checkpoint.offset < log.start_offset:
        return RestoreReason.BELOW_LOG_START
    behind = checkpoint.offset < log.end_offset
    if behind and behind_ms >= log.delete_retention_ms:
        return RestoreReason.TOMBSTONES_EXPIRED
    return None
