"""The operator that starts and stops a stream app."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from dags.operators.app_control import AppControl, Need
from dags.operators.app_controls import app_control
from dags.operators.app_links import QueryPageLink, SparkUiLink
from dags.operators.settings import OperationsSettings
from dags.operators.stream_health import Seen, StreamHealthTrigger, Wanted
from state.clock import SystemClock

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

    The app runs under supervisor and never as a child of the task, so nothing that happens to the task harms it. The
    task tells supervisor what is wanted and then waits in a `StreamHealthTrigger`, without a worker; when task, worker,
    scheduler or triggerer are killed, whoever comes next finds the app as it is. Repeating it is harmless, and there is
    never a second copy: supervisor has one process for each app, and that takes the app's lease. Returns {"app",
    "action", "changed", "pid", "state"}.

    Args:
        app: the app's name, which is its program's in the supervisor.
        selected: the app that the run is for, or "all". Templated.
        action: an `AppAction`. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected", "action")
    operator_extra_links = (QueryPageLink(), SparkUiLink())
    ui_color = "#d7ecd9"

    def __init__(self, *, app: str, selected: str = ALL_APPS, action: str = AppAction.ENSURE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.selected = selected
        self.action = action

    def execute(self, context: Context) -> dict[str, object]:
        """Begins the action, and waits for its end unless there is nothing to do.

        Raises:
            AirflowSkipException: the run is for another app.
        """
        del context
        if self.selected not in {ALL_APPS, self.app}:
            msg = f"this run is for {self.selected}"
            raise AirflowSkipException(msg)
        action, control = AppAction(self.action), self._control()
        self.log.info("%s %s", action, self.app)
        need = Need.RESTART if action is AppAction.RESTART else Need.START
        if action is AppAction.ENSURE:
            need = control.needs()
        if need is Need.NOTHING:
            return self._result(changed=False)
        if action is AppAction.STOP or need is Need.RESTART:
            self._await_end(changed=control.begin_stop(), then_start=action is not AppAction.STOP)
        if control.is_stopping():
            self._await_end(changed=False, then_start=True)
        self._start(control, changed=False)
        raise AssertionError("unreachable: a deferred task ends by an exception")

    def on_ended(self, context: Context, event: dict[str, Any]) -> dict[str, object]:
        """The app has ended: starts it if that is what follows."""
        del context
        _check(event)
        if event["told"]["then_start"]:
            self._start(self._control(), changed=True)
        return self._result(changed=event["told"]["changed"])

    def on_running(self, context: Context, event: dict[str, Any]) -> dict[str, object]:
        """The app runs.

        Raises:
            AirflowFailException: it can't run before something is changed.
            AirflowException: it doesn't run yet.
        """
        del context
        _check(event)
        return self._result(changed=event["told"]["changed"])

    def _start(self, control: AppControl, *, changed: bool) -> None:
        changed |= control.begin_start()
        self._wait(Wanted.RUNNING, self._settings().app_start_timeout_s, "on_running", {"changed": changed})

    def _await_end(self, *, changed: bool, then_start: bool) -> None:
        told = {"changed": changed, "then_start": then_start}
        self._wait(Wanted.ENDED, self._settings().app_stop_timeout_s, "on_ended", told)

    def _wait(self, wanted: Wanted, timeout_s: float, then: str, told: dict[str, Any]) -> None:
        deadline_ms = SystemClock().now_ms() + int(timeout_s * 1000)
        self.defer(
            trigger=StreamHealthTrigger(app=self.app, wanted=wanted, deadline_ms=deadline_ms, told=told),
            method_name=then,
        )

    def _result(self, *, changed: bool) -> dict[str, object]:
        beat = self._control().heartbeat()
        return {
            "app": self.app,
            "action": self.action,
            "changed": changed,
            "pid": None if beat is None else beat.pid,
            "state": None if beat is None else str(beat.state),
        }

    def _control(self) -> AppControl:
        return app_control(self.app, self._settings())

    def _settings(self) -> OperationsSettings:
        return OperationsSettings()  # type: ignore[call-arg]


def _check(event: dict[str, Any]) -> None:
    if event["seen"] == Seen.FAILED:
        raise AirflowFailException(event["message"])
    if event["seen"] == Seen.LATE:
        raise AirflowException(event["message"])
