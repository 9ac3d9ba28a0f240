"""The records of a task's topics, which it reads from Kafka itself, as its batch was planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storekeeper.apps.errors import START_ANEW, LostInputError
from storekeeper.changelog.bounded_reader import first_offset, read_parts
from storekeeper.changelog.errors import ChangelogMovedError
from storekeeper.changelog.skipped import headers_of
from storekeeper.kafka.connection import Kafka
from storekeeper.topology.records import RecordFields


@dataclass
class SourceRecords:
    """The records of one partition in one batch, in parts. They are read anew each time. `rows` says how many there
    are from `start` to before `end`, once they have been read.
    """

    kafka: Kafka
    topic: str
    partition: int
    start: int
    end: int
    rows: int = 0

    def __iter__(self) -> Iterator[Sequence[RecordFields]]:
        """Reads them.

        Raises:
            LostInputError: the first ones are no longer there.
            BrokerUnavailableError: the broker doesn't answer, or doesn't have them all.
            ConfigurationError: ACLs don't allow it.
        """
        topic, partition, rows = self.topic, self.partition, 0
        try:
            for messages in read_parts(self.kafka, topic, partition, self.start, self.end):
                rows += len(messages)
                yield [
                    (topic, partition, m.offset(), m.timestamp()[1], m.key(), m.value(), headers_of(m) or ())
                    for m in messages
                ]
            self.rows = rows
        except ChangelogMovedError as error:
            first = first_offset(self.kafka, topic, partition)
            raise LostInputError(
                f"topic {topic} begins at offset {first} in partition {partition}, and is to be read from {self.start} "
                f"to {self.end}: what was there is lost. Let an input keep records for longer (retention.ms), and "
                f"{START_ANEW}"
            ) from error
