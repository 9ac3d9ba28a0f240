"""Waiting for a stream app without holding a worker: a trigger that looks at supervisor and heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from dags.operators.app_control import AppControl, app_control
from dags.operators.errors import SupervisorUnreachableError
from dags.operators.settings import OperationsSettings
from state.clock import SystemClock
from state.errors import StateError

_PAUSE_S = 1.0


class Wanted(StrEnum):
    """What to wait for."""

    RUNNING = "running"
    GOING_ON = "going on"
    """It runs and has made progress from `carried["drained"]`, its offsets when it was drained."""
    ENDED = "ended"


_LATE = {
    Wanted.RUNNING: "doesn't run in time",
    Wanted.GOING_ON: "doesn't run and read on in time",
    Wanted.ENDED: "didn't end in time",
}


class Seen(StrEnum):
    """How the wait ended: the app is as wanted, can't get there, or didn't in time."""

    REACHED = "reached"
    FAILED = "failed"
    LATE = "late"


class StreamHealthTrigger(BaseTrigger):
    """Fires once `app` is as `wanted`, can't be until something is changed, or `deadline_ms` has passed.

    The event is {"seen", "message", "carried"}; the message has the heartbeat's error and the end of the app's log. A
    triggerer that takes over from a killed one checks again, with the same result. A killed trigger harms no app.

    Args:
        app: the app's name.
        wanted: a `Wanted`.
        deadline_ms: the last moment, in epoch milliseconds. A supervisor that doesn't answer is asked again until then.
        carried: passed back to the waiting task with the event.
    """

    def __init__(self, *, app: str, wanted: str, deadline_ms: int, carried: dict[str, Any]) -> None:
        super().__init__()
        self.carried = carried
        self.app = app
        self.wanted = wanted
        self.deadline_ms = deadline_ms

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments, which Airflow stores."""
        return (
            f"{type(self).__module__}.{type(self).__name__}",
            {"app": self.app, "wanted": str(self.wanted), "deadline_ms": self.deadline_ms, "carried": self.carried},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Checks about once a second."""
        control = await asyncio.to_thread(lambda: app_control(self.app, OperationsSettings()))  # type: ignore[call-arg]
        seen = None
        while seen is None:  # the change happens in other processes: nothing could set an event
            seen, _ = await asyncio.gather(asyncio.to_thread(self._look, control), asyncio.sleep(_PAUSE_S))
        yield TriggerEvent({**seen, "carried": self.carried})

    def _look(self, control: AppControl) -> dict[str, str] | None:
        try:
            if self._is_reached(control):
                return {"seen": Seen.REACHED, "message": ""}
            if SystemClock().now_ms() >= self.deadline_ms:
                return {"seen": Seen.LATE, "message": str(control.overdue(_LATE[Wanted(self.wanted)]))}
        except SupervisorUnreachableError as error:
            if SystemClock().now_ms() < self.deadline_ms:
                return None
            return {"seen": Seen.LATE, "message": str(error)}
        except StateError as error:
            return {"seen": Seen.FAILED, "message": str(error)}
        return None

    def _is_reached(self, control: AppControl) -> bool:
        if self.wanted == Wanted.GOING_ON:
            return control.has_gone_on(self.carried["drained"])
        return control.has_started() if self.wanted == Wanted.RUNNING else control.has_ended()
