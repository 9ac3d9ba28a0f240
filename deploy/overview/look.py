"""Looks at a running platform: the run directory and the query nodes. What can't be read is left out, and said."""

from __future__ import annotations

from collections.abc import Callable

from deploy.layout import RunLayout
from deploy.overview.glance import Glance, app_glance, node_glances, store_glances, verdict_glance
from deploy.run_reader import heartbeats, last_verdicts, snapshot_times_ms
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
        apps = [app_glance(beat, now_ms) for beat in heartbeats(self._layout)]
        verdicts = [verdict_glance(table, one, now_ms) for table, one in last_verdicts(self._layout).items()]
        try:
            with self._client() as client:
                lags = client.lag()
                stores = store_glances(client.stores(), lags, snapshot_times_ms(self._layout), now_ms)
        except StateError as error:
            return Glance(now_ms, apps, verdicts=verdicts, unreachable=str(error))
        links = {lag.node: lag.address for lag in lags if lag.error is None}
        return Glance(now_ms, apps, stores, node_glances(lags), verdicts, links=links)
