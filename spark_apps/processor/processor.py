"""What an app with state per key is made of: a `Processor`, and the `ProcessorContext` that it is given."""

from __future__ import annotations

from typing import Protocol

from spark_apps.processor.records import SourceRecord


class ProcessorContext(Protocol):
    """What a processor may do while it handles a record or a timer. Valid only during the call that it is given to."""

    @property
    def stream_time_ms(self) -> int:
        """The newest event time of this task so far, epoch milliseconds; -1 before the first. It never goes back."""
        ...

    def advance(self, event_time_ms: int) -> None:
        """Takes note of an event's time: call it for each event before anything that depends on time.

        Raises:
            PoisonRecordError: the event lies further ahead of its record's own timestamp than is believable. Were it
                let through, it would make every later event late.
        """
        ...

    def get(self, key: bytes) -> bytes | None:
        """This task's state at `key`, or None."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets the state at `key`; None removes it."""
        ...

    def schedule(self, at_ms: int, key: bytes) -> None:
        """Has `punctuate` called with `key` once stream time has reached `at_ms`, or up to one timer step later."""
        ...

    def forward(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Writes a record to a sink topic."""
        ...

    def change(self, store: str, key: bytes, value: bytes | None, *, inner_key: bytes | None = None) -> None:
        """Writes a store's row to its changelog; None deletes it. Only the last change of a row in a batch is written.

        `inner_key` is the key inside the row key of a window or session store: it decides the partition.
        """
        ...

    def late(self) -> None:
        """Counts a late record, which the processor drops."""
        ...


class Processor(Protocol):
    """An app's logic. It depends on nothing but its arguments, so that a batch that is run again writes the same.

    One task handles one partition of the source topics: its records in the order of offsets, those of the sources
    named first before those of the others, and it has a state of its own. So all that belongs together must have
    one key. A processor is shipped to Spark's workers: a frozen dataclass of settings is right.
    """

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Handles one record.

        Raises:
            PoisonRecordError: it can't be processed. Raise it before changing anything.
        """
        ...

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Handles a timer that was scheduled for `key`. May come for a key whose state is gone."""
        ...
