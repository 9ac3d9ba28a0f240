"""Waiting without holding a worker: for a job's end, and for a generation that catches up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from airflow.sdk.configuration import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

from storekeeper_provider.hook import NoAnswerError, StorekeeperHook

TASK_ENDED = "somebody has ended its task"
"""Why a trigger cancels a job."""
NO_ANSWER_S = 600.0
"""How long the control API may be away before the wait fails, and a retry starts or finds the job."""
FIRST_PAUSE_S = conf.getint("workers", "min_heartbeat_interval") + 2.0
"""Airflow fails a task that goes on before the scheduler has seen the end of the process that deferred it, which takes
up to a heartbeat's interval and a loop: https://github.com/apache/airflow/issues/72716."""
PAUSE_S = 5.0


class JobTrigger(BaseTrigger):
    """Fires once a job is over. The event is {"job": its id}, or {"error": why nobody can say}.

    A triggerer that takes over from a killed one asks again, with the same result. If somebody ends the task, the job
    is cancelled.
    """

    def __init__(self, *, name: str, storekeeper_conn_id: str) -> None:
        super().__init__()
        self.name = name
        self.storekeeper_conn_id = storekeeper_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments, which Airflow stores."""
        path = f"{type(self).__module__}.{type(self).__name__}"
        return path, {"name": self.name, "storekeeper_conn_id": self.storekeeper_conn_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Asks once the scheduler has seen that the task is deferred, and then every five seconds."""
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        yield await _event({"job": self.name}, lambda: hook.job(self.name)["state"] != "running")

    async def on_kill(self) -> None:
        """Cancels the job, as somebody has ended the task."""
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        await asyncio.to_thread(hook.cancel_job, self.name, TASK_ENDED)


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

        event = await _event({}, is_seen)
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


async def _event(payload: dict[str, Any], reached: Callable[[], bool]) -> TriggerEvent:
    """Waits until `reached` returns true, and gives up if the control API is away for too long."""
    answered_s = time.monotonic()
    pause_s = FIRST_PAUSE_S
    while True:  # it happens in other processes: nothing could set an event
        await asyncio.sleep(pause_s)
        pause_s = PAUSE_S
        try:
            if await asyncio.to_thread(reached):
                return TriggerEvent(payload)
            answered_s = time.monotonic()
        except NoAnswerError as error:
            if time.monotonic() - answered_s > NO_ANSWER_S:
                return TriggerEvent({"error": str(error)})
        except Exception as error:
            return TriggerEvent({"error": str(error)})
