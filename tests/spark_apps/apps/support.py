"""What the tests of the apps share: a driver for an app's topology, and rows as the changelog has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from spark_apps.settings import AppSettings
from spark_apps.spec import StoreSpec
from spark_apps.testkit import TopologyDriver
from spark_apps.testkit.driver import PARTITIONS, START_MS, Piped, encoded
from state.topology import StreamsBuilder, TopologyTestDriver

AppTopology = Callable[[StreamsBuilder, AppSettings], None]


class AppDriver(TopologyTestDriver):
    """The topology of an app; keys and values are piped as they would be in a topic."""

    def __init__(
        self, topology: AppTopology, settings: Mapping[str, Any] | None = None, *, partitions: int = PARTITIONS
    ) -> None:
        streams = StreamsBuilder("app")
        topology(streams, AppSettings(**settings or {}))
        described = streams.build()
        counts = {source.topic: partitions for sub in described.sub_topologies for source in sub.sources}
        super().__init__(described, counts)
        self.specs = {spec.name: spec for sub in described.sub_topologies for spec in sub.stores}

    def send(self, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
        """Appends a record to a topic; `run` handles it."""
        self.append_bytes(topic, encoded(key), encoded(value), START_MS, partition=partition)

    def raw(self, store: str) -> dict[bytes, bytes]:
        """The rows that a store's changelog adds up to: key and JSON."""
        changes = [entry for number in range(PARTITIONS) for entry in self.changelog(store, number)]
        return {key: data for key, data in dict(changes).items() if data is not None}

    def values(self, store: str) -> dict[Any, dict[str, Any]]:
        """The rows as they can be queried: JSON as Python has it, by key. Those of windows by (key, start)."""
        serde, kind = self.specs[store].value_serde, self.specs[store].kind.value
        return {
            tuple(key[:2]) if kind == "window" else tuple(key) if kind == "session" else key:
            orjson.loads(serde.serialize(value)) for key, value in self.rows(store)
        }  # fmt: skip

    def reasons(self) -> list[tuple[str, str]]:
        """Topic and message of each dead letter, all of poison records."""
        assert {letter.error_class for letter in self.dead_letters} <= {"PoisonRecordError"}
        return [(letter.record.topic, letter.reason) for letter in self.dead_letters]


def raw_rows(driver: TopologyDriver, store: StoreSpec) -> dict[bytes, bytes]:
    """The rows that a store's changelog adds up to in a driver of the hand-written apps."""
    rows = {record.key: record.value for record in driver.output(store.changelog_topic)}
    return {key: value for key, value in rows.items() if key is not None and value is not None}
