"""The changelog writer on Kafka: batched, idempotent, partitioned as Kafka's Java producer does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from state.changelog.headers import SCHEMA_VERSION, ChangelogHeaders
from state.errors import ChangelogError, NullKeyError
from state.stores.bytes_store import Entry
from state.stores.record_context import Header

_FLUSH_TIMEOUT_S = 60.0
_NOW_MS = 0  # what the client takes for "when the record is produced"


class KafkaChangelogWriter:
    """Appends rows to one changelog topic: a `ChangelogWriter` for stores with logging.

    Records are safe only after `flush`. A context manager that flushes on leaving. Not thread-safe.
    """

    def __init__(self, bootstrap: str, topic: str, *, schema_version: int = 1) -> None:
        """Connects when the first record is written.

        Args:
            bootstrap: the brokers, `host:port,…`.
            topic: the changelog topic, which must exist.
            schema_version: what `append` and `append_many` say of the values that they are given.
        """
        self._topic = topic
        self._schema: Header = (SCHEMA_VERSION, b"%d" % schema_version)
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "topic.metadata.propagation.max.ms": 5000,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": 500_000,
                "delivery.report.only.error": True,
                "on_delivery": self._on_delivery,
            }
        )

    def append(self, key: bytes, value: bytes | None, timestamp_ms: int, headers: Sequence[Header]) -> None:
        """Queues one change; None is a tombstone. The schema version goes in front of `headers`.

        Raises:
            NullKeyError: the key is None.
            ChangelogError: an earlier record could not be delivered.
        """
        self.append_many([(key, value)], [timestamp_ms], headers)

    def append_many(self, entries: Sequence[Entry], timestamps_ms: Sequence[int], headers: Sequence[Header]) -> None:
        """Queues changes with one timestamp each, in their order; a negative timestamp stands for now.

        Raises:
            NullKeyError: a key is None.
            ChangelogError: an earlier record could not be delivered.
        """
        encoded = [self._schema, *headers]
        for (key, value), timestamp_ms in zip(entries, timestamps_ms, strict=True):
            self._produce(key, value, encoded, timestamp_ms)
        self._raise_failure()

    def write(self, entries: Iterable[Entry], headers: ChangelogHeaders) -> None:
        """Queues a micro-batch's rows with all the headers of one, None as value for a deletion, in the order given.

        Raises:
            NullKeyError: a key is None.
            ChangelogError: an earlier record could not be delivered.
        """
        encoded = headers.encode()
        for key, value in entries:
            self._produce(key, value, encoded, _NOW_MS)
        self._raise_failure()

    def flush(self) -> None:
        """Waits until the broker has all that was written.

        Raises:
            ChangelogError: if it has not after a minute, or refused a record.
        """
        left = self._producer.flush(_FLUSH_TIMEOUT_S)
        self._raise_failure()
        if left:
            msg = f"{left} records to {self._topic} are not delivered after {_FLUSH_TIMEOUT_S:.0f} s: is the broker up?"
            raise ChangelogError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()

    def _produce(self, key: bytes | None, value: bytes | None, headers: list[Header], timestamp_ms: int) -> None:
        if key is None:
            raise NullKeyError("a changelog record needs a key: nothing can be found or deleted without one")
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers, timestamp=max(timestamp_ms, _NOW_MS))
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                msg = f"{self._topic} takes no record: {error.args[0]}"
                raise ChangelogError(msg) from error
            else:
                return

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            msg = f"a record to {self._topic} was not delivered: {self._failure.str()}"
            raise ChangelogError(msg)
