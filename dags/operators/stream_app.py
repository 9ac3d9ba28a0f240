"""The operator that starts and stops a stream app."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dags.operators.app_control import AppControl, Patience
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc
from state.clock import SystemClock
from state.errors import RetriableError, StateError

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL_APPS = "all"


class AppAction(StrEnum):
    """What to do with an app. ENSURE leaves one alone that runs."""

    ENSURE = "ensure"
    START = "start"
    STOP = "stop"
    RESTART = "restart"


class StreamAppOperator(BaseOperator):
    """Does `action` to `app` and succeeds when the app's heartbeat agrees; is skipped if `selected` names another app.

    The app runs under supervisor and never as a child of the task, so nothing that happens to the task harms it.
    Repeating it is harmless. Returns {"app", "action", "changed", "pid", "state"}.

    Args:
        app: the app's name, which is its program's in the supervisor.
        selected: the app that the run is for, or "all". Templated.
        action: an `AppAction`. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected", "action")
    ui_color = "#d7ecd9"

    def __init__(self, *, app: str, selected: str = ALL_APPS, action: str = AppAction.ENSURE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.selected = selected
        self.action = action

    def execute(self, context: Context) -> dict[str, object]:
        """Does the action.

        Raises:
            AirflowSkipException: the run is for another app.
            AirflowFailException: the app can't run before something is changed.
        """
        del context
        if self.selected not in {ALL_APPS, self.app}:
            msg = f"this run is for {self.selected}"
            raise AirflowSkipException(msg)
        control = app_control(self.app, OperationsSettings())  # type: ignore[call-arg]
        self.log.info("%s %s", self.action, self.app)
        try:
            changed = getattr(control, AppAction(self.action).value)()
        except RetriableError:
            raise
        except StateError as error:
            raise AirflowFailException(str(error)) from error
        beat = control.heartbeat()
        return {
            "app": self.app,
            "action": self.action,
            "changed": changed,
            "pid": None if beat is None else beat.pid,
            "state": None if beat is None else str(beat.state),
        }


def app_control(app: str, settings: OperationsSettings) -> AppControl:
    """The control of an app of this run directory."""
    return AppControl(
        app,
        supervisor=SupervisorRpc.from_secret(settings.supervisor_secret, timeout_s=settings.supervisor_timeout_s),
        heartbeat_file=settings.heartbeat_file(app),
        patience=Patience(settings.app_start_timeout_s, settings.app_stop_timeout_s, settings.watch_stale_s),
        clock=SystemClock(),
        pause=threading.Event().wait,
    )
