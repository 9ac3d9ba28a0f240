"""Stream time: how far the records of one partition have come."""

from __future__ import annotations

from storekeeper.errors import InvalidTimestampError

UNKNOWN_MS = -1
"""Stream time before the first record."""


class StreamTime:
    """The greatest timestamp seen in one partition, epoch ms. It never goes back, and keys share it.

    Whether a record is late depends on it, so it outlives the process: after a restore, start with what the store has
    observed, else expired windows would take records again. One instance a partition; not thread-safe.

    Attributes:
        now_ms: the greatest timestamp so far, or `UNKNOWN_MS` before the first.
    """

    __slots__ = ("now_ms",)

    def __init__(self, restored_ms: int = UNKNOWN_MS) -> None:
        self.now_ms = restored_ms

    def observe(self, timestamp_ms: int) -> int:
        """Takes a record's timestamp into account and returns stream time, which an older record leaves as it was.

        Raises:
            InvalidTimestampError: the timestamp is negative. Stream time stays.
        """
        if timestamp_ms < 0:
            msg = f"a record can't be stamped {timestamp_ms} ms: use epoch milliseconds from 0"
            raise InvalidTimestampError(msg)
        self.now_ms = max(self.now_ms, timestamp_ms)
        return self.now_ms
