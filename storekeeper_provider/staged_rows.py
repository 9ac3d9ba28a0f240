"""Watching a staged table: Airflow's asset of it is updated when it has rows that nobody has checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from storekeeper_provider import CONNECTION
from storekeeper_provider.assets import delta_table
from storekeeper_provider.hook import StorekeeperHook

ASK_EVERY = timedelta(minutes=15)
"""How often the platform is asked. An app stages rows with each batch: this bounds how often they are checked."""
_FIRED = "storekeeper_fired"
"""The key in the asset's state: the newest staged version that there was an event for."""


def staged_table(table: str, *, ask_every: timedelta = ASK_EVERY, storekeeper_conn_id: str = CONNECTION) -> Asset:
    """The table that an app stages rows in, for the quality gate to publish them to `table`.

    Airflow updates the asset when rows wait to be checked. Schedule a DAG on it that runs `check TABLE`. Use this
    function wherever a DAG names the asset: Airflow forgets the watcher when it finds the asset without one.

    Args:
        table: the table's published name.
        ask_every: how often the platform is asked, and the least time between two updates.
        storekeeper_conn_id: the connection.
    """
    trigger = StagedRowsTrigger(
        table=table, ask_every_s=ask_every.total_seconds(), storekeeper_conn_id=storekeeper_conn_id
    )
    plain = delta_table(f"{table}_staged")
    watcher = AssetWatcher(f"{table}_staged_rows", trigger=trigger)
    return Asset(plain.name, uri=plain.uri, group=plain.group, watchers=[watcher])


class StagedRowsTrigger(BaseEventTrigger):
    """Fires when staged rows of a table wait for a check.

    The event is {"table", "first_version", "last_version", "rows"}: the staged versions that wait, both inclusive.
    It fires at most once for each staged version, and after that not before a check has decided on that version. So
    runs don't pile up behind a slow check. The last version is in the asset's state, so a triggerer that takes over
    fires no second time. An event that is lost with a killed triggerer isn't repeated: give the DAG a clock, too.

    It never ends. If the platform doesn't answer, it logs that once, and goes on asking.

    Args:
        table: the table's published name.
        ask_every_s: how often it asks.
        storekeeper_conn_id: the connection.
    """

    def __init__(self, *, table: str, ask_every_s: float, storekeeper_conn_id: str) -> None:
        super().__init__()
        self.table = table
        self.ask_every_s = ask_every_s
        self.storekeeper_conn_id = storekeeper_conn_id
        self._failed = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments, which Airflow stores."""
        path = f"{type(self).__module__}.{type(self).__name__}"
        return path, {name: getattr(self, name) for name in ("table", "ask_every_s", "storekeeper_conn_id")}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Asks for ever."""
        while True:
            versions = await self._poll()
            if versions is not None:
                yield TriggerEvent({"table": self.table, **versions})
            await asyncio.sleep(self.ask_every_s)  # it happens in other processes: nothing could set an event

    async def _poll(self) -> dict[str, Any] | None:
        """What waits and has had no event. Raises nothing: Airflow would restart a failed watcher each second."""
        try:
            versions = await self._due()
        except Exception as error:
            if not self._failed:
                self.log.warning(
                    "can't tell whether table %s has unchecked rows (%s); retrying every %.0f s",
                    self.table, error, self.ask_every_s,
                )  # fmt: skip
            self._failed = True
            return None
        if self._failed:
            self.log.info("the platform answers again about table %s", self.table)
        self._failed = False
        return versions

    async def _due(self) -> dict[str, Any] | None:
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        waiting = (await asyncio.to_thread(hook.table, self.table))["waiting"]
        state = self.asset_state_store
        if waiting is None or state is None or not is_due(waiting, await state.aget(_FIRED)):
            return None
        await state.aset(_FIRED, waiting["last_version"])  # first: a version has at most one event
        return dict(waiting)


def is_due(waiting: Mapping[str, Any], fired: Any) -> bool:
    """Whether staged versions that wait are an event.

    Args:
        waiting: the first and the last version, and the number of rows, None if that is unknown.
        fired: the version that had the last event; None if there was none.
    """
    if waiting["rows"] == 0:
        return False
    # A recreated table begins again with version 0.
    return fired is None or waiting["first_version"] > fired or waiting["last_version"] < fired
