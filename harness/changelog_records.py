"""What a changelog on a real broker holds."""

from __future__ import annotations

from collections.abc import Iterator

from storekeeper.changelog.scan import Changelog
from storekeeper.kafka.connection import Kafka


def read_changelog(kafka: Kafka, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """The rows and tombstones that a changelog holds now, partition by partition in the order of offsets."""
    changelog = Changelog(kafka, topic)
    for partition in changelog.partitions:
        for record in changelog.scan(partition, *changelog.committed(partition)):
            yield record.key or b"", record.value
