"""Errors that stop an app, in addition to the library's.

    StateError
    ├── ConfigurationError
    │   ├── UnusableCheckpointError   the checkpoint is another app's, or doesn't fit the topics any more
    │   ├── LostChangelogError        a changelog has lost records
    │   ├── LostInputError            records of an input were gone before they were read
    │   ├── MisplacedKeyError         a topic isn't partitioned as nodes expect it
    │   ├── UnrepeatableBatchError    a committed batch came again with other input
    │   └── PartitionsChangedError    a topic has another number of partitions than the state was made with
    ├── SerializationError
    │   ├── PoisonRecordError         one record can't be processed (see `records`)
    │   └── RefusedChangeError        the changelog would refuse the row that a record makes
    ├── BrokerRefusedError            the broker refused a record, or a step of a transaction
    ├── FencedWriterError             a newer attempt has taken over (retriable)
    ├── MorePartitionsError           an input has more partitions than when the app started (retriable)
    ├── CatalogueUnavailableError     the catalogue of tables doesn't answer (retriable)
    └── AppRunningError               another copy of the app holds the lease (retriable)

A `ConfigurationError` ends an app with exit code 78: for its supervisor, a restart is of no use.
"""

from __future__ import annotations

from typing import Self

from storekeeper.errors import ConfigurationError, RetriableError, SerializationError, StateError

START_ANEW = "start a new generation, from the tables or from the input (docs/how-to/back-up-and-recover.md)"
"""What is left to do where a checkpoint or topics can't be gone on with."""


class UnusableCheckpointError(ConfigurationError):
    """The checkpoint is of another app or generation, or lies outside the topics. The message says which."""


class PartitionsChangedError(ConfigurationError):
    """A topic has another number of partitions than the app's state was made with. The message says what to do."""


class MorePartitionsError(RetriableError):
    """An input has more partitions than when the app started. The next start reads them, too."""


class MisplacedKeyError(ConfigurationError):
    """A source topic isn't partitioned as by Kafka's default partitioner, so nodes would not find rows of its keys."""


class LostChangelogError(ConfigurationError):
    """A changelog has lost records that a store had followed: the app would go on without a part of its state."""

    @classmethod
    def of(cls, topic: str, partition: int, how: str, why: str) -> Self:
        """The error for a partition of a changelog: `ends at 7`, and why that can't be."""
        return cls(
            f"changelog {topic} {how} in partition {partition}, and {why}: it has lost records. Start a new "
            "generation, which reads the input again (docs/how-to/back-up-and-recover.md)"
        )


class LostInputError(ConfigurationError):
    """Records of an input were gone before the batch that they were planned for has read them."""


class AppRunningError(RetriableError):
    """Another copy of this app is running. Stop it first: two would write the same batches."""


class CatalogueUnavailableError(RetriableError):
    """The catalogue of tables does not answer. Repeat the command later: entries that it has made stay."""


class FencedWriterError(RetriableError):
    """A newer attempt took over, or the broker aborted this one because it took too long. Its writes are undone."""


class RefusedChangeError(SerializationError):
    """A row that a record makes is too large for its store's changelog. The record is left out."""


class BrokerRefusedError(StateError):
    """The broker refused a record or a transaction call; the transaction is aborted. The message says why."""


class UnrepeatableBatchError(ConfigurationError):
    """A committed batch came again with other input, or a later one is committed. Start a new generation of the app."""
