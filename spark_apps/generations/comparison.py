"""Whether two generations hold the same: every row of the one, converted, is a row of the other, and there is no more.

Both must hold, so that their changelogs end at the same place of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_apps.errors import BrokerUnavailableError
from spark_apps.generations.catalog import chain_of
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain, StoreRecord
from spark_apps.topics import Topics
from state.changelog.position import Position
from state.migration.compare import Change, ComparisonVerdict, compare

_BATCH_RECORDS = 10_000
_POLL_S = 0.2
_PATIENCE_S = 30.0


def conversion(source: Generation, target: Generation) -> Callable[[bytes, bytes], list[StoreRecord]]:
    """From a row of one generation to the rows that another must have for it."""
    shared = len(source.migrations)
    if target.migrations[:shared] == source.migrations:
        # The steps of a chain can be taken apart, since each takes the version before it.
        steps = chain_of(target.migrations).steps[shared:]
        return Chain(steps).convert
    back, there = chain_of(source.migrations), chain_of(target.migrations)
    return lambda key, value: there.convert(*back.revert(key, value))


def compare_generations(
    bootstrap: str, folder: Path, source: Generation, target: Generation, purged: Container[bytes] = frozenset()
) -> ComparisonVerdict:
    """Compares two generations that hold; `folder` takes files meanwhile, as large as the changelogs' content.

    Rows of `purged` keys may have other values: one of the two has forgotten what they were before a clean-up.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older, newer = (read_changelog(bootstrap, generation.topic) for generation in (source, target))
    return compare(older, newer, conversion(source, target), folder, purged=purged)


def read_changelog(bootstrap: str, topic: str) -> Iterator[Change]:
    """The committed records that a topic holds now, partition by partition in the order of offsets."""
    bounds = Topics(bootstrap).bounds([topic])
    unread = {p: end for _, p, end in bounds.end if end > (bounds.start.offset(topic, p) or 0)}
    if not unread:
        return
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        assigned = [TopicPartition(topic, p, bounds.start.offset(topic, p) or 0) for p in unread]
        consumer.assign(assigned)
        silent_s = 0.0
        while any(place.offset < unread[place.partition] for place in consumer.position(assigned)):
            messages = consumer.consume(_BATCH_RECORDS, timeout=_POLL_S)
            silent_s = 0.0 if messages else silent_s + _POLL_S
            if silent_s > _PATIENCE_S:
                msg = f"the broker sends nothing of {topic} any more: compare again once it does"
                raise BrokerUnavailableError(msg)
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                yield message.key() or b"", message.value()
    finally:
        consumer.close()


def behind(ahead: Position, other: Position) -> int:
    """How many records of the input one position is behind another."""
    return sum(max(0, offset - (other.offset(topic, partition) or 0)) for topic, partition, offset in ahead)
