"""The changelog writer on Kafka: batched, idempotent, partitioned as Kafka's Java producer does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.errors import ChangelogError, NullKeyError
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.record_context import Header

_FLUSH_TIMEOUT_S = 60.0


class KafkaChangelogWriter:
    """Appends rows to one changelog topic.

    Records are safe only after `flush`. A context manager that flushes on leaving. Not thread-safe.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connects when the first record is written.

        Args:
            bootstrap: the brokers, `host:port,…`.
            topic: the changelog topic, which must exist.
        """
        self._topic = topic
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

    def write(
        self, entries: Iterable[Entry], headers: ChangelogHeaders, partitions: Mapping[bytes, int] | None = None
    ) -> None:
        """Queues a micro-batch's rows with all the headers of one, None as value for a deletion, in the order given.

        Args:
            entries: the rows.
            headers: of the batch.
            partitions: where rows go, by their keys; the others where their keys belong.

        Raises:
            NullKeyError: a key is None.
            ChangelogError: an earlier record could not be delivered.
        """
        encoded = headers.encode()
        for key, value in entries:
            self._produce(key, value, encoded, (partitions or {}).get(key or b"", -1))
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

    def _produce(self, key: bytes | None, value: bytes | None, headers: list[Header], partition: int) -> None:
        if key is None:
            raise NullKeyError("a changelog record needs a key: nothing can be found or deleted without one")
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, headers=headers)
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
