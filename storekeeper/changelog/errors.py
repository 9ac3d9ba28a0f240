"""How following a changelog can fail, beyond a plain `ChangelogError`.

ChangelogError
├── BrokerUnavailableError   no broker answers (retriable)
├── OpenTransactionError     an open transaction hides what others have committed (retriable)
├── ChangelogMovedError      the log changed under its reader: plan the restore again
└── TombstonesExpiredError   too far behind to be sure of deletions: rebuild
"""

from __future__ import annotations

from storekeeper.errors import ChangelogError, RetriableError


class BrokerUnavailableError(ChangelogError, RetriableError):
    """No broker can be reached now. Rows in local stores go on being served; ask again later."""


class OpenTransactionError(ChangelogError, RetriableError):
    """A transaction stays open, so committed records behind it can't be read. The broker ends it when it times out."""


class ChangelogMovedError(ChangelogError):
    """A partition can't be read on from its reader's position. Plan its restore again.

    Arguments: topic, partition, reason.
    """

    def __str__(self) -> str:
        topic, partition, reason = self.args
        return f"{topic}-{partition} can't be followed on from here: {reason}"


class TombstonesExpiredError(ChangelogError):
    """A replica was behind for so long that deletions it has not seen may be gone from the log. Rebuild it."""
