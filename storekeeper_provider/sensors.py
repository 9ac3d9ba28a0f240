"""Sensors that hold no worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.triggers import CaughtUpTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class CaughtUpSensor(BaseOperator):
    """Waits until the candidate generation of an app is at most `max_behind` input records behind the live one.

    Args:
        app: the app. Templated.
        max_behind: records of the app's input. Templated.
        patience: how long to wait.
        storekeeper_conn_id: the connection. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("app", "max_behind", "storekeeper_conn_id")
    ui_color = "#e6dff5"

    def __init__(
        self,
        *,
        app: str,
        max_behind: str | int,
        patience: timedelta = timedelta(hours=12),
        storekeeper_conn_id: str = CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.max_behind = max_behind
        self.patience = patience
        self.storekeeper_conn_id = storekeeper_conn_id

    def execute(self, context: Context) -> None:
        """Waits in a trigger."""
        del context
        trigger = CaughtUpTrigger(
            app=self.app, max_behind=int(self.max_behind), storekeeper_conn_id=self.storekeeper_conn_id
        )
        self.defer(trigger=trigger, method_name="on_event", timeout=self.patience)

    def on_event(self, context: Context, event: dict[str, Any]) -> int:
        """Called at the end of the wait. Returns the number of records that it is behind.

        Raises:
            AirflowFailException: there is no candidate, its process has failed, or the platform doesn't answer.
        """
        del context
        if "error" in event:
            raise AirflowFailException(event["error"])
        return int(event["behind"])


class PlatformHealthySensor(BaseSensorOperator):
    """Waits until every process of the platform is healthy, or those that are named.

    Args:
        processes: their names, such as `pos` or `node-a`; all if none is named.
        storekeeper_conn_id: the connection.
        **kwargs: those of every sensor.
    """

    ui_color = "#d7ecd9"

    def __init__(self, *, processes: Sequence[str] = (), storekeeper_conn_id: str = CONNECTION, **kwargs: Any) -> None:
        super().__init__(**{"mode": "reschedule", **kwargs})
        self.processes = processes
        self.storekeeper_conn_id = storekeeper_conn_id

    def poke(self, context: Context) -> bool:
        """Looks once."""
        del context
        status = StorekeeperHook(self.storekeeper_conn_id).status()
        if not self.processes:
            return bool(status["healthy"])
        health = {process["name"]: process["healthy"] for process in status["processes"]}
        return all(health.get(name, False) for name in self.processes)
