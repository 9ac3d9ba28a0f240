"""Looks at a running platform: the run directory and the query nodes. What can't be read is left out and reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from deploy.exits import exits
from deploy.layout import RunLayout
from deploy.overview.glance import (
    Glance,
    Holders,
    app_glance,
    exit_glance,
    node_glances,
    store_glances,
    verdict_glance,
)
from deploy.run_reader import heartbeats, last_verdicts, snapshots
from state.client import StateClient
from state.clock import Clock
from state.errors import StateError


class Look:
    """Looks again at each call, with a new `StateClient` each time. Not thread-safe."""

    def __init__(
        self, layout: RunLayout, clock: Clock, client: Callable[[], StateClient], holders: Holders | None = None
    ) -> None:
        """Args:
        layout: the run directory.
        clock: for the ages.
        client: makes a client of the nodes; it is closed after each look.
        holders: the expected placement; None if unknown.
        """
        self._holders = holders or Holders()
        self._layout = layout
        self._clock = clock
        self._client = client

    def __call__(self) -> Glance:
        """Everything, now. Never raises for a node that doesn't answer or a missing file."""
        now_ms = self._clock.now_ms()
        apps = [app_glance(beat, now_ms) for beat in heartbeats(self._layout)]
        verdicts = [verdict_glance(one, now_ms) for one in last_verdicts(self._layout)]
        ended = [exit_glance(one, now_ms) for one in exits(self._layout)]
        try:
            with self._client() as client:
                lags, listed = client.lag(), client.stores()
                estimates = _estimates(client, [str(row["store"]) for row in listed])
        except StateError as error:
            return Glance(now_ms, apps, verdicts=verdicts, exits=ended, unreachable=str(error))
        stores = store_glances(
            listed,
            lags,
            estimates=estimates,
            snapshots=snapshots(self._layout),
            holders=self._holders,
            now_ms=now_ms,
        )
        links = {lag.node: lag.address for lag in lags if lag.error is None}
        return Glance(now_ms, apps, stores, node_glances(lags, self._holders.names), verdicts, ended, links=links)


def _estimates(client: StateClient, stores: Iterable[str]) -> dict[str, int]:
    """About how many rows all partitions of each store have; stores that no node reports are left out."""
    found = {}
    for store in stores:
        with contextlib.suppress(StateError):
            found[store] = client.key_value(store).approximate_num_entries().value
    return found
