"""Events as they really come: out of order, some very late, some twice."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from storekeeper.changelog.partitioner import partition_for
from storekeeper.testkit import PARTITIONS
from storekeeper.topology.driver import START_MS

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class Sent(NamedTuple):
    """One record of a topic, with its place there."""

    partition: int
    offset: int
    key: str
    event_id: str
    time_ms: int
    value: dict[str, Any]


def untidy(events: list[tuple[str, str, int, dict[str, Any]]], *, seed: int) -> list[Sent]:
    """Events (key, id, time, value), sent mostly in the order of time: some a little late, some much, some twice."""
    chance = random.Random(seed)
    sent: list[tuple[float, tuple[str, str, int, dict[str, Any]]]] = []
    for event in events:
        delay_ms = chance.choice([0, 0, 0, 5 * MINUTE_MS, 20 * MINUTE_MS, 3 * HOUR_MS]) * chance.random()
        sent.append((event[2] + delay_ms, event))
        if chance.random() < 0.2:
            sent.append((event[2] + delay_ms + chance.random() * HOUR_MS, event))
    ends = [0] * PARTITIONS
    placed = []
    for _, (key, event_id, time_ms, value) in sorted(sent, key=lambda pair: pair[0]):
        partition = partition_for(key.encode(), PARTITIONS)
        placed.append(Sent(partition, ends[partition], key, event_id, time_ms, value))
        ends[partition] += 1
    return placed


def past(ago_ms: int) -> int:
    """A time before the test's clock begins."""
    return START_MS - ago_ms
