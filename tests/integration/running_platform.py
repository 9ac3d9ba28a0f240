"""A platform that runs: its status, its addresses, and clients of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.topics import write_topic
from storekeeper.client.client import StateClient
from storekeeper.errors import StateError
from storekeeper.ops.airflow_home import AIRFLOW_USER, read_airflow_password
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.waiting import eventually
from tests.integration.platform_process import PlatformProcess
from tests.watched_airflow import WatchedAirflow

RUN_S = 300
"""How long a run of a DAG may take on a busy machine."""


@dataclass(frozen=True, slots=True)
class RunningPlatform:
    """A platform with all apps, as its first start left it. `first` is the result of that start."""

    platform: PlatformProcess
    first: subprocess.CompletedProcess[str]
    _addresses: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> RunLayout:
        return RunLayout(self.platform.run_dir)

    def settings(self, **others: str) -> PlatformSettings:
        """Its settings, some of them changed for this process."""
        prefix = "STOREKEEPER_"
        own = {
            name.removeprefix(prefix).lower(): value
            for name, value in self.platform.environment.items()
            if name.startswith(prefix)
        }
        return PlatformSettings.load(**own | others)

    @property
    def login(self) -> tuple[str, str]:
        return AIRFLOW_USER, read_airflow_password(self.layout) or ""

    def addresses(self) -> dict[str, str]:
        """Where processes are reached, by name, as `status` says. It is asked once: each call is a process."""
        if not self._addresses:
            self._addresses.update(
                (process["name"], process["address"]) for process in self.platform.status()["processes"]
            )
        return self._addresses

    @contextmanager
    def airflow(self) -> Iterator[WatchedAirflow]:
        with WatchedAirflow(self.addresses()["airflow-api-server"], *self.login) as client:
            yield client

    def pause(self, dag: str) -> None:
        """Has Airflow start no more runs of a DAG."""
        with self.airflow() as airflow:
            airflow._request("PATCH", f"/api/v2/dags/{dag}", {"is_paused": True})

    def publish_prices(self, symbols: list[str]) -> StateClient:
        """Has the nodes serve a price of each symbol, and returns a client that reads them."""
        addresses = self.addresses()
        write_topic(addresses["kafka"], "ticks", [(symbol.encode(), b"1.5") for symbol in symbols])
        client = StateClient([addresses["node-a"], addresses["node-b"]])
        prices = client.key_value("prices")

        def served() -> bool:
            try:
                return all(prices.get(symbol).value is not None for symbol in symbols)
            except StateError:
                return False

        assert eventually(served, RUN_S)
        return client
