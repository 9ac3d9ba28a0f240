"""Every error that the state library raises, as one tree.

    StateError
    ├── ConfigurationError            the caller's settings or names can't work; nothing was started
    │   ├── InvalidNameError          a store, app or topic name outside the allowed alphabet
    │   ├── NotCopartitionedError     topics that are joined have different numbers of partitions
    │   └── UnknownStoreError         no store of that name is declared here
    ├── RefusedError                  the step isn't safe as things are: a person must decide
    ├── InvalidArgumentError          one call's arguments are wrong; the store is unharmed
    │   ├── NullKeyError              keys may not be None
    │   ├── InvalidTimestampError     a timestamp is negative or not an integer
    │   │   └── FutureTimestampError  a record's time is too far ahead
    │   ├── InvalidWindowError        a window's bounds or sizes can't work
    │   └── NotExactError             a store's history does not say what its rows were at that time
    ├── BufferFullError               a suppression buffer that must not emit early reached its limit
    ├── SerializationError            bytes and records don't match the serde or schema version
    │   └── NullValueError            a null value where the type of the stream has none
    ├── RejectedRecordError           a processor sends its record to the dead letters
    ├── RecordFailedError             a record can't be processed, and its operator is to fail
    ├── InvalidStateStoreError        the store can't answer; the subclass says whether waiting helps
    │   ├── StoreClosedError          closed by its owner: open it again
    │   ├── StoreCorruptedError       damage detected: set aside and restore
    │   ├── StoreRestoringError       not caught up yet (retriable)
    │   ├── StoreMigratedError        the partition lives elsewhere now (retriable after a look-up)
    │   └── StoreUnavailableError     no replica can answer at present (retriable)
    ├── StorageError                  the disk or server under the store failed
    │   ├── DiskFullError             no space left: free some, writing resumes without a rebuild (retriable)
    │   ├── TablesUnreachableError    the store of the Delta tables doesn't answer (retriable)
    │   └── SnapshotDamagedError      a table holds something else than its snapshots: restore it
    ├── IteratorClosedError           an iterator was used after its or its store's close
    └── ChangelogError                a changelog topic is missing, foreign or out of step with local state

`RetriableError` marks those that the same call may survive later.
"""

from __future__ import annotations


class StateError(Exception):
    """Root of the tree: catch it to handle anything that the library reports."""


class RetriableError(StateError):
    """Mixin of errors that time heals: the same call may succeed later, unchanged."""


class ConfigurationError(StateError):
    """Settings or names that can't work. Nothing was started; correct them and start again."""


class InvalidNameError(ConfigurationError):
    """A store, app or topic name outside `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. Choose another name."""


class UnknownStoreError(ConfigurationError):
    """No store of that name is declared here. List the declared ones and check the spelling."""


class NotCopartitionedError(ConfigurationError):
    """Topics whose records are joined have different numbers of partitions. Repartition one of them."""


class RefusedError(StateError):
    """A step that isn't safe as things are. Nothing was changed; the message says what a person must decide."""


class InvalidArgumentError(StateError):
    """One call's arguments are wrong. The store is unharmed; correct the call."""


class NullKeyError(InvalidArgumentError):
    """A key was None. Only values may be None, which deletes."""


class InvalidTimestampError(InvalidArgumentError):
    """A timestamp was negative or no integer. Pass epoch milliseconds."""


class FutureTimestampError(InvalidTimestampError):
    """A record's time is further ahead than the topics of its app take. A later attempt might take it."""


class InvalidWindowError(InvalidArgumentError):
    """A window's bounds or a definition's size, advance, gap or grace can't work. The message says what can."""


class NotExactError(InvalidArgumentError):
    """A store's history doesn't say what its rows were at a time. The message names the nearest time that it does."""


class BufferFullError(StateError):
    """A suppression buffer that must not emit early reached its limit. Raise the limit or let it emit early."""


class SerializationError(StateError):
    """Bytes and records don't match the serde or a supported schema version. Nothing was written."""


class NullValueError(SerializationError):
    """A record has a null value, and the type of its stream has none. Declare `V | None` to take such records."""


class RejectedRecordError(StateError):
    """A processor called `context.dead_letter`: its record is left out. The message is the processor's reason."""


class RecordFailedError(StateError):
    """A batch failed. The message names the error, the line of the user's code, the operator and the record."""


class InvalidStateStoreError(StateError):
    """The store can't answer this call. The subclass says why and whether waiting helps."""


class StoreClosedError(InvalidStateStoreError):
    """The store was closed by its owner. Open it again before the next call."""


class StoreCorruptedError(InvalidStateStoreError):
    """Damage was detected in a store's files. Its directory is to be set aside and restored from the changelog."""


class StoreRestoringError(InvalidStateStoreError, RetriableError):
    """The store has not caught up with its changelog yet. Ask again later or ask a standby."""


class StoreMigratedError(InvalidStateStoreError, RetriableError):
    """The partition is served elsewhere now. Look the owner up again and ask there."""


class StoreUnavailableError(InvalidStateStoreError, RetriableError):
    """No replica can answer at present. Ask again later."""


class StorageError(StateError):
    """The disk or server under the store failed. The message names the path or server."""


class DiskFullError(StorageError, RetriableError):
    """No space is left under the store. Free some; writing resumes without a rebuild."""


class TablesUnreachableError(StorageError, RetriableError):
    """The store of the Delta tables doesn't answer, or refuses. Nothing was left half done; repeat the call."""


class SnapshotDamagedError(StorageError):
    """A snapshot table is damaged, or something else has written to it. The message says what, and how to go on."""


class IteratorClosedError(StateError):
    """An iterator was used after its own or its store's close. Open a new one."""


class ChangelogError(StateError):
    """A changelog topic is missing, foreign, or out of step with local state. The message says what to do."""
