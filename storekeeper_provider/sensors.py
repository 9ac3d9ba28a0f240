"""Sensors that hold no worker, and the trigger that waits for a generation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import awaited

if TYPE_CHECKING:
    from airflow.sdk import Context


class CaughtUpTrigger(BaseTrigger):
    """Fires once the candidate generation of an app is at most `max_behind` input records behind the live one.

    The event is {"behind": records}, or {"error": why it never will be, or why nobody can say}.
    """

    def __init__(self, *, app: str, max_behind: int, storekeeper_conn_id: str) -> None:
        super().__init__()
        self.app = app
        self.max_behind = max_behind
        self.storekeeper_conn_id = storekeeper_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments, which Airflow stores."""
        path = f"{type(self).__module__}.{type(self).__name__}"
        names = ("app", "max_behind", "storekeeper_conn_id")
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Asks once the scheduler has seen that the task is deferred, and then every five seconds."""
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        seen: dict[str, Any] = {}

        def is_seen() -> bool:
            seen.clear()
            seen.update(progress_of(hook.generations(self.app)))
            return "error" in seen or (seen["behind"] is not None and seen["behind"] <= self.max_behind)

        event = await awaited({}, is_seen)
        yield TriggerEvent({**seen, **event.payload})


def progress_of(status: dict[str, Any]) -> dict[str, Any]:
    """How far the candidate of an app is, as {"behind"}; None if that is unknown. {"error"} if it gets no further."""
    app, candidate = status["app"], status["candidate"]
    if candidate is None:
        return {"error": f"{app} has no generation on its way: run this DAG from its task *seed* on"}
    process = status["processes"].get(f"{app}-next")
    if process is not None and process["state"] == "FAILED":
        return {"error": f"{app}-next has failed: {process['error']}"}
    entry = next(one for one in status["generations"] if one["generation"] == candidate)
    return {"behind": entry["records_behind_live"]}


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
