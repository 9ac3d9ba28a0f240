"""Looks at a running platform: the run directory and the query nodes. What can't be read is left out, and said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deploy.layout import RunLayout
from deploy.overview.glance import (
    AppGlance,
    Glance,
    VerdictGlance,
    app_glance,
    node_glances,
    store_glances,
    verdict_glance,
)
from quality.verdict import VerdictArchive
from spark_apps.heartbeat import read_heartbeat
from spark_apps.registry import ON_DEMAND_STORES, STORES
from state.client import StateClient
from state.clock import Clock
from state.errors import StateError


class Look:
    """Looks again at each call. Not thread-safe, since a `StateClient` of its own is made for each look anyway."""

    def __init__(self, layout: RunLayout, clock: Clock, client: Callable[[], StateClient]) -> None:
        """`client` makes a client of the nodes; it is closed after each look."""
        self._layout = layout
        self._clock = clock
        self._client = client

    def __call__(self) -> Glance:
        """Everything, now. Never raises for a node that is away or a file that isn't there."""
        now_ms = self._clock.now_ms()
        apps, verdicts = self._apps(now_ms), self._verdicts(now_ms)
        try:
            with self._client() as client:
                lags = client.lag()
                stores = store_glances(client.stores(), lags, self._snapshots(), now_ms)
        except StateError as error:
            return Glance(now_ms, apps, verdicts=verdicts, unreachable=str(error))
        links = {lag.node: lag.address for lag in lags if lag.error is None}
        return Glance(now_ms, apps, stores, node_glances(lags), verdicts, links=links)

    def _apps(self, now_ms: int) -> list[AppGlance]:
        beats = map(read_heartbeat, self._files("heartbeats/*.json"))
        return [app_glance(beat, now_ms) for beat in beats if beat is not None]

    def _snapshots(self) -> dict[str, int]:
        found = {}
        for store in (STORES | ON_DEMAND_STORES).values():
            commits = self._files(f"delta/{store.table_name}/_delta_log/*.json")
            if commits:
                found[store.name] = int(commits[-1].stat().st_mtime * 1000)
        return found

    def _verdicts(self, now_ms: int) -> list[VerdictGlance]:
        found = []
        for folder in self._files("quality/verdicts/*"):
            try:
                verdict = VerdictArchive(folder).last()
            except (OSError, ValueError):
                continue
            if verdict is not None:
                found.append(verdict_glance(folder.name, verdict, now_ms))
        return found

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self._layout.root.glob(pattern))
