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
| whole at a time that has not come             | has records after the checkpoint       | `WIPE`: tombstones gone    |
| checkpoint                                    | anything else                          | `RESUME` at the checkpoint |

`WIPE` is a replay from the log's start into an emptied store. Rows are a copy of the log, so it loses nothing.

A *seed* is a copy of the rows that lies elsewhere: a sealed table. A store that is far behind may begin with it. It is
then like a store that was whole when the seed was, and has followed nothing since: the table above decides the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from storekeeper.changelog.checkpoint import Checkpoint

FAR_BEHIND_RECORDS = 200_000
"""A store that lacks as many records is far behind: a seed may pay, and a node restores it in a process of its own."""
_CLOCKS_APART_MS = 60_000
"""The clock of another machine that held the rows may be ahead by so much."""
SEED_MARGIN_MS = 3_600_000
"""Time to load a seed and to read the log on from there, before deletions since then are gone from the log."""


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
    """How to begin following. The first offset to read is `offset`; the restore is complete once the reader reaches
    `end_offset`.
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
        behind_ms: the time since the rows were last known to equal the whole log; negative if that time has not come.
    """
    if checkpoint is None:
        if empty:
            return RestorePlan(RestoreAction.REPLAY, RestoreReason.EMPTY, log.start_offset, log.end_offset)
        return RestorePlan(RestoreAction.WIPE, RestoreReason.NO_CHECKPOINT, log.start_offset, log.end_offset)
    mismatch = _mismatch(checkpoint, log, behind_ms)
    if mismatch is not None:
        return RestorePlan(RestoreAction.WIPE, mismatch, log.start_offset, log.end_offset)
    return RestorePlan(RestoreAction.RESUME, RestoreReason.CHECKPOINT, checkpoint.offset, log.end_offset)


@dataclass(frozen=True, slots=True)
class Seed:
    """The rows of a changelog partition as they lie elsewhere.

    Attributes:
        topic, topic_id, partition: whose rows.
        offset: all records below it are in the rows.
        whole_at_ms: when the rows equalled the whole log, epoch milliseconds.
        rows: about how many they are.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    whole_at_ms: int
    rows: int


class SeedRefusal(StrEnum):
    """Why a store doesn't begin with a seed; shown in logs."""

    NOT_COVERED = "the table has no offset of this partition"
    SEVERAL_VERSIONS = "rows of the table have other schema versions than its generation"
    FOREIGN = "it is of another changelog partition"
    TOPIC_RECREATED = "the changelog topic was deleted and recreated since"
    AHEAD_OF_LOG = "it is ahead of the log: the log has lost records"
    BELOW_LOG_START = "the log begins after it: records in between are gone"
    TOO_OLD = "deletions since it was made may be gone from the log before it is loaded"
    FROM_THE_FUTURE = "it is of a time that has not come: a clock is wrong"
    NO_GAIN = "it has no fewer rows than there are records to read without it"


def seed_refusal(seed: Seed, log: LogState, *, position: int, now_ms: int) -> SeedRefusal | None:
    """Why a store must not begin with a seed, or need not; None if it should.

    Args:
        seed: the seed.
        log: the changelog partition now.
        position: the offset that the store would be read on from without it.
        now_ms: the time, epoch milliseconds.
    """
    age_ms = now_ms - seed.whole_at_ms
    refused = {
        SeedRefusal.FOREIGN: (seed.topic, seed.partition) != (log.topic, log.partition),
        SeedRefusal.TOPIC_RECREATED: seed.topic_id != log.topic_id,
        SeedRefusal.AHEAD_OF_LOG: seed.offset > log.end_offset,
        SeedRefusal.BELOW_LOG_START: seed.offset < log.start_offset,
        SeedRefusal.TOO_OLD: seed.offset < log.end_offset and age_ms >= log.delete_retention_ms - SEED_MARGIN_MS,
        SeedRefusal.FROM_THE_FUTURE: age_ms < -SEED_MARGIN_MS,
        SeedRefusal.NO_GAIN: seed.offset - position <= seed.rows,
    }
    return next((why for why, holds in refused.items() if holds), None)


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
    # The clock was ahead when the rows were whole: nobody knows how long ago that was.
    if behind and not -_CLOCKS_APART_MS <= behind_ms < log.delete_retention_ms:
        return RestoreReason.TOMBSTONES_EXPIRED
    return None
