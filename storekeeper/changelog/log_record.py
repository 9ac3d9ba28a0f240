"""A changelog record as maintenance sees it, and the records that maintenance itself writes.

A clean-up record has the headers of the record that it replaces, so that readers of the changelog treat it as a change
of the same generation and batch; without `source-position`, as it comes from no input, without the batch's `changes`,
and with a `batch-time` of its own. After them:

| header           | value (UTF-8)                                            |
|------------------|----------------------------------------------------------|
| `cleanup`        | the clean-up's id                                        |
| `cleanup-action` | `delete`, or `restore` for a row that was brought back   |
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from storekeeper.changelog.headers import BATCH_TIME, CHANGES, SOURCE_POSITION

CLEANUP = "cleanup"
CLEANUP_ACTION = "cleanup-action"

_OF_ONE_RECORD = {SOURCE_POSITION, CHANGES, BATCH_TIME, CLEANUP, CLEANUP_ACTION}

Headers = Sequence[tuple[str, bytes | None]]


class CleanupAction(StrEnum):
    """What a clean-up's record does."""

    DELETE = "delete"
    RESTORE = "restore"


class LogRecord(NamedTuple):
    """A record of one partition; value None is a tombstone. A tuple, as there are millions."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def is_of_cleanup(self) -> bool:
        """Whether a clean-up wrote it."""
        return any(name == CLEANUP for name, _ in self.headers)

    def action_of(self, cleanup_id: str) -> CleanupAction | None:
        """The action of this record in that clean-up; None if it isn't part of it."""
        headers = dict(self.headers)
        if headers.get(CLEANUP) != cleanup_id.encode():
            return None
        return CleanupAction((headers.get(CLEANUP_ACTION) or b"").decode())


def cleanup_headers(
    headers: Headers, cleanup_id: str, action: CleanupAction, now_ms: int
) -> list[tuple[str, bytes | None]]:
    """The headers of the record that takes the place, at this time, of one with `headers`."""
    kept = [(name, value) for name, value in headers if name not in _OF_ONE_RECORD]
    own = [(CLEANUP, cleanup_id.encode()), (CLEANUP_ACTION, action.encode())]
    return [*kept, (BATCH_TIME, b"%d" % now_ms), *own]
