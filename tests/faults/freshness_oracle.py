"""What a changelog holds and since when, seen from outside: the judge of what answers say of their freshness."""

from __future__ import annotations

import bisect
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.partitioner import partition_for
from storekeeper.protocol.freshness import END_GOOD_FOR_MS
from storekeeper.protocol.position_token import PositionToken


@dataclass(frozen=True, slots=True)
class Write:
    """One record of a key, that carries its `number`; acknowledged at `acked_s` on the monotonic clock."""

    number: int
    key: str
    partition: int
    offset: int
    acked_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer: when it was asked for, what was required, what came. `number` is None if there is no such key."""

    key: str
    sent_s: float
    options: Mapping[str, str]
    number: int | None
    headers: Mapping[str, str]


class Oracle:
    """Writes records and remembers each; judges answers. Safe from any thread."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self._partitions = partitions
        self._lock = threading.Lock()
        self._by_key: dict[str, list[Write]] = {}
        self._by_partition: dict[int, list[Write]] = {number: [] for number in range(partitions)}
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "partitioner": "murmur2_random"})

    def write(self, key: str, number: int) -> None:
        """Writes a record; the batch that it belongs to read the source record `number` alone."""
        headers = ChangelogHeaders(1, number, 1, {"pos": {0: (number, number + 1)}})

        def acked(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            write = Write(number, key, partition, offset, time.monotonic())
            with self._lock:
                self._by_key.setdefault(key, []).append(write)
                self._by_partition[partition].append(write)

        value = json.dumps({"n": number}).encode()
        self._producer.produce(self.topic, value, key.encode(), headers=headers.encode(), on_delivery=acked)
        self._producer.poll(0)

    def settle(self) -> None:
        """Waits until everything written is acknowledged."""
        assert self._producer.flush(30) == 0

    def poll(self) -> None:
        """Takes acknowledgements that have come."""
        self._producer.poll(0)

    def last_write(self, key: str) -> Write | None:
        """The newest acknowledged write of a key."""
        with self._lock:
            writes = self._by_key.get(key)
            return writes[-1] if writes else None

    def violations(self, seen: Seen) -> list[str]:
        """What an answer says or was required to be, and is not."""
        with self._lock:
            writes = list(self._by_key.get(seen.key, ()))
            partition = partition_for(seen.key.encode(), self._partitions)
            log = list(self._by_partition[partition])
        return [
            *self._too_old(seen, writes, partition),
            *_too_new(seen, writes, self.topic, partition),
            *_lag(seen, log),
        ]

    def _too_old(self, seen: Seen, writes: Sequence[Write], partition: int) -> list[str]:
        """What must be in the answer and is not."""
        found: list[str] = []
        number = -1 if seen.number is None else seen.number
        for what, staleness_ms in (
            ("said", seen.headers.get("storekeeper-staleness-ms")),
            ("required", seen.options.get("max_staleness_ms")),
        ):
            if staleness_ms is not None:
                before_s = seen.sent_s - int(staleness_ms) / 1000
                wanted = _newest(writes, lambda write, before_s=before_s: write.acked_s < before_s)
                if wanted > number:
                    found.append(f"staleness {what} {staleness_ms} ms, but {wanted} is missing: {seen}")
        offset = int(seen.headers.get("storekeeper-offset", 0))
        if _newest(writes, lambda write: write.offset < offset) > number:
            found.append(f"offset said {offset}, but a record below is missing: {seen}")
        if (token := seen.options.get("position")) is not None:
            found += self._position(seen, PositionToken.parse(token), writes, partition, number)
        return found

    def _position(
        self, seen: Seen, token: PositionToken, writes: Sequence[Write], /, partition: int, number: int
    ) -> list[str]:
        shown = token.changelog.offset(self.topic, partition)
        source = token.source.offset("pos", 0)
        wanted = _newest(
            writes,
            lambda write: (
                (shown is not None and write.offset < shown) or (source is not None and write.number < source)
            ),
        )
        return [f"a record that the position names is missing: {wanted}: {seen}"] if wanted > number else []


@dataclass(slots=True)
class Tally:
    """What became of many queries."""

    answered: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def _newest(writes: Sequence[Write], belongs: object) -> int:
    assert callable(belongs)
    return max((write.number for write in writes if belongs(write)), default=-1)


def _too_new(seen: Seen, writes: Sequence[Write], topic: str, partition: int) -> list[str]:
    """A row that the position in the answer doesn't cover: reading on from it would go back in time."""
    shown = PositionToken.parse(seen.headers["storekeeper-position"]).changelog.offset(topic, partition) or 0
    newer = [write.offset for write in writes if write.number == seen.number and write.offset >= shown]
    return [f"the answer shows offset {newer[0]}, its position says {shown}: {seen}"] if newer else []


def _lag(seen: Seen, log: Sequence[Write]) -> list[str]:
    if "max_lag" not in seen.options:
        return []
    at = bisect.bisect_left([write.acked_s for write in log], seen.sent_s - END_GOOD_FOR_MS / 1000)
    end = max((write.offset + 1 for write in log[:at]), default=0)
    lag = end - int(seen.headers["storekeeper-offset"])
    return [f"{lag} records were missing: {seen}"] if lag > int(seen.options["max_lag"]) else []
