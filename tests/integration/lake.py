"""A store of tables in HDFS or S3, a broker, and the apps and jobs that use both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from demo.invoices import Record as Sold
from demo.oracle import Expectation, expect
from harness.app_process import AppProcesses
from harness.broker import Broker, start_broker
from harness.storage.hdfs import Hdfs
from harness.storage.place import TableStore
from harness.storage.s3 import S3
from harness.topics import read_topic

_TOPICS = ("pos", "shipment", "loyalty", "hadoop-sink", "pos-dlq", "hadoop_export-dlq")
_CHANGELOG = "pos-rewards-changelog"
_IMPATIENT = {
    "hadoop.fs.s3a.attempts.maximum": 1,
    "hadoop.fs.s3a.retry.limit": 2,
    "hadoop.ipc.client.connect.max.retries": 2,
}
"""Hadoop's clients would wait for minutes, and then do the same."""
PATIENCE_S = 900
"""Of waits for an event: on a busy machine a first batch takes minutes."""


@dataclass(frozen=True)
class Lake:
    """A store of tables, and the apps and jobs that use it."""

    store: TableStore
    broker: Broker
    apps: AppProcesses

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(f"{self.store.uri}/{name}")

    def expected(self) -> Expectation:
        """What must have come out of all that was put into `pos`."""
        return expect(Sold("pos", record.key, record.value) for record in read_topic(self.broker.bootstrap, "pos"))

    def run(self, *command: str) -> tuple[int, str]:
        """The exit code of a command, and all that it said."""
        done = self.apps.run(*command)
        return done.returncode, done.stdout + done.stderr

    def succeed(self, *command: str) -> dict[str, Any]:
        """The answer of a command that must succeed."""
        done = self.apps.run(*command, "--output", "json")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        answer: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
        return answer


@contextmanager
def running_lake(
    store: TableStore, folder: Path, settings: Mapping[str, str], constants: Mapping[str, object] | None = None
) -> Iterator[Lake]:
    """The store with a broker and apps, which run with these settings beside `tables_uri`."""
    broker = start_broker(folder / "broker")
    properties = {**_IMPATIENT, "jars": [str(jar) for jar in store.jars]} if store.jars else _IMPATIENT
    apps = AppProcesses(
        folder / "run",
        broker.bootstrap,
        {"trigger_interval_ms": "50", "tables_uri": store.uri, "spark": json.dumps(properties), **settings},
        constants=dict(constants or {}),
        patience_s=PATIENCE_S,
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        try:
            store.start()
            for topic in _TOPICS:
                broker.create_topic(topic)
            broker.create_topic(_CHANGELOG, config={"cleanup.policy": "compact"})
            yield Lake(store, broker, apps)
        finally:
            apps.stop()
            broker.stop()
            store.close()


def made_store(name: str, folder: Path) -> TableStore:
    if name == "s3":
        store = S3()
        if not (S3.is_fetched() and store.jars):
            pytest.skip("the S3 server and its jars are not there: run `make setup-storage`")
        return store
    if not Hdfs.is_fetched():
        pytest.skip("the jars of HDFS are not there: run `make setup-storage`")
    folder.mkdir()
    return Hdfs(folder)


def shown(lake: Lake) -> dict[str, tuple[Any, int]]:
    """Points and invoices by card, as deltalake reads them."""
    rows = lake.table("rewards").to_pyarrow_table().to_pylist()
    return {row["CustomerCardNo"]: (row["TotalLoyaltyPoints"], row["InvoiceCount"]) for row in rows}
