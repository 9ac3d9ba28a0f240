"""The states of a replica and which of them answer reads.

CREATED ──> RESTORING ──> RUNNING ──> CLOSED
   │          │  ^           │
   │          v  │           v
   └──────> SUSPENDED <──────┘        the disk is full, or the log can't be followed now: tried again later
              ^
            FAILED                    a person has to look; tried again later all the same
            OUTDATED                  deletions may be gone from the log: waits for its turn to be rebuilt
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from storekeeper.changelog.skipped import SkippedTotals


class ReplicaRole(StrEnum):
    """Which queries prefer a replica. Both kinds follow the log in the same way."""

    ACTIVE = "active"
    STANDBY = "standby"


class ReplicaState(StrEnum):
    """What a replica is doing."""

    CREATED = "CREATED"
    """Not opened yet, or waiting for the broker before it can be."""
    RESTORING = "RESTORING"
    """Catching up; its rows are old."""
    RUNNING = "RUNNING"
    """Has reached the end of the log at least once since it was opened, and follows."""
    SUSPENDED = "SUSPENDED"
    """Can't write now: the disk is full. Rows stay readable if they were before."""
    FAILED = "FAILED"
    """The changelog or the disk has a problem; the error says what to do."""
    OUTDATED = "OUTDATED"
    """Was behind for longer than the log keeps tombstones. It is rebuilt when no other node rebuilds its replica; until
    then its rows are old, and readable if they were before."""
    CLOSED = "CLOSED"
    """The node is stopping."""


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """One partition of one store. `store` is `store@topic` for rows of another topic than the configured one."""

    store: str
    partition: int

    def __str__(self) -> str:
        return f"{self.store}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One look at a replica.

    Attributes:
        replica: which.
        topic: its changelog.
        role: whether queries prefer it.
        state: what it is doing.
        serving: whether it answers reads now.
        offset: next changelog offset to apply, None before it was opened.
        end_offset: the end of the log as last seen, None if it was never seen.
        restored_records: records read by the restore under way or the last one.
        skipped: the records below `offset` that were not rows.
        unranked_rows: rows that its ranking leaves out, None if it keeps no ranking.
        error: why it is suspended or failed, None otherwise.
        trouble: why its ranking can't answer, None if it can or there is none.
    """

    replica: ReplicaId
    topic: str
    role: ReplicaRole
    state: ReplicaState
    serving: bool
    offset: int | None
    end_offset: int | None
    restored_records: int
    skipped: SkippedTotals
    unranked_rows: int | None
    error: str | None
    trouble: str | None

    @property
    def offset_lag(self) -> int | None:
        """How many records are missing at most; None while `offset` or `end_offset` is unknown."""
        if self.offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.offset)
