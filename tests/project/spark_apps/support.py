"""What the tests of the apps share: records as they would be in a topic, and rows as they can be queried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe
from storekeeper.testkit import PARTITIONS
from storekeeper.topology import StreamsBuilder, TopologyTestDriver
from storekeeper.topology.driver import START_MS

Piped = str | bytes | Mapping[str, Any] | None
"""A key or value: text is encoded, a mapping becomes JSON."""


class AppDriver(TopologyTestDriver):
    """The topology of an app in this process."""

    def __init__(
        self, topology: Describe, settings: Mapping[str, Any] | None = None, *, partitions: int = PARTITIONS
    ) -> None:
        streams = StreamsBuilder("app")
        topology(streams, AppSettings(**settings or {}))
        described = streams.build()
        counts = {source.topic: partitions for sub in described.sub_topologies for source in sub.sources}
        super().__init__(described, counts)
        self.specs = {spec.name: spec for sub in described.sub_topologies for spec in sub.stores}

    def send(self, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
        """See `send`."""
        send(self, topic, key, value, partition=partition)

    def send_in_batches(self, topic: str, sent: Sequence[Any], batch: int) -> None:
        """Sends records with a key and a value, and handles them `batch` at a time."""
        for number, record in enumerate(sent):
            self.send(topic, record.key, record.value)
            if number % batch == batch - 1:
                self.run()
        self.run()

    def raw(self, store: str) -> dict[bytes, bytes]:
        """The rows that a store's changelog adds up to: key and JSON."""
        changes = [entry for number in range(PARTITIONS) for entry in self.changelog(store, number)]
        return {key: data for key, data in dict(changes).items() if data is not None}

    def values(self, store: str) -> dict[Any, dict[str, Any]]:
        """See `values`."""
        return values(self, store)

    def reasons(self) -> list[tuple[str, str]]:
        """Topic and message of each dead letter, all of poison records."""
        assert {letter.error_class for letter in self.dead_letters} <= {"PoisonRecordError"}
        return [(letter.record.topic, letter.reason) for letter in self.dead_letters]


def send(driver: TopologyTestDriver, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
    """Appends a record to a topic; `run` handles it."""
    driver.append_bytes(topic, _encoded(key), _encoded(value), START_MS, partition=partition)


def values(driver: TopologyTestDriver, store: str) -> dict[Any, dict[str, Any]]:
    """The rows as they can be queried: JSON as Python has it, by key. Those of windows by (key, start)."""
    [spec] = [spec for sub in driver.plan.topology.sub_topologies for spec in sub.stores if spec.name == store]
    serde, kind = spec.value_serde, spec.kind.value
    return {
        tuple(key[:2]) if kind == "window" else tuple(key) if kind == "session" else key:
        orjson.loads(serde.serialize(value)) for key, value in driver.rows(store)
    }  # fmt: skip


def _encoded(piped: Piped) -> bytes | None:
    if piped is None or isinstance(piped, bytes):
        return piped
    return piped.encode() if isinstance(piped, str) else orjson.dumps(piped)
