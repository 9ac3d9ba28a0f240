"""Whether two generations hold the same: every row of the one, converted, is a row of the other, and there is no more.

Both must hold, so that their changelogs end at the same place of the input. What is kept in memory is a digest of each
row of the newer one, 40 bytes or so beside its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_apps.errors import BrokerUnavailableError
from spark_apps.generations.catalog import chain_of
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain, StoreRecord
from spark_apps.topics import Topics
from state.changelog.position import Position

_BATCH_RECORDS = 10_000
_POLL_S = 0.2
_PATIENCE_S = 30.0
_DIGEST_BYTES = 16

Change = tuple[bytes, bytes | None]
"""Key and value of a changelog's record; None deletes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found, in rows: the same, different, only in the source, only in the target, not to be converted."""

    same: int
    different: int
    missing: int
    surplus: int
    unconvertible: int

    @property
    def holds(self) -> bool:
        """Whether both hold the same."""
        return not (self.different or self.missing or self.surplus or self.unconvertible)

    def as_dict(self) -> dict[str, int]:
        """As JSON has it."""
        return {
            "same": self.same,
            "different": self.different,
            "missing": self.missing,
            "surplus": self.surplus,
            "unconvertible": self.unconvertible,
        }


def conversion(source: Generation, target: Generation) -> Callable[[bytes, bytes], list[StoreRecord]]:
    """From a row of one generation to the rows that another must have for it."""
    shared = len(source.migrations)
    if target.migrations[:shared] == source.migrations:
        # The steps of a chain can be taken apart, since each takes the version before it.
        steps = chain_of(target.migrations).steps[shared:]
        return Chain(steps).convert
    back, there = chain_of(source.migrations), chain_of(target.migrations)
    return lambda key, value: there.convert(*back.revert(key, value))


def compared(
    source: Iterator[Change], target: Iterator[Change], convert: Callable[[bytes, bytes], list[StoreRecord]]
) -> Comparison:
    """Compares what two changelogs, each in the order of its records by key, add up to."""
    held: dict[bytes, bytes] = {}
    for key, value in target:
        _apply(held, key, value)
    rows: dict[bytes, bytes] = {}
    for key, value in source:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    same = different = missing = unconvertible = 0
    for key, value in rows.items():
        try:
            expected = convert(key, value)
        except Exception:  # whatever a function of the app's own raises
            unconvertible += 1
            continue
        for new_key, new_value in expected:
            found = held.pop(new_key, None)
            same += found == _digest(new_value)
            different += found is not None and found != _digest(new_value)
            missing += found is None
    return Comparison(same, different, missing, len(held), unconvertible)


def compare_generations(bootstrap: str, source: Generation, target: Generation) -> Comparison:
    """Compares two generations that hold.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """
    return compared(
        read_changelog(bootstrap, source.topic), read_changelog(bootstrap, target.topic), conversion(source, target)
    )


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


def _apply(held: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        held.pop(key, None)
    else:
        held[key] = _digest(value)


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=_DIGEST_BYTES).digest()
