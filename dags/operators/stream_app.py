"""The operator that starts and stops a stream app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.operators.app_change import change_scale, check_code
from dags.operators.app_control import APP_STOP_TIMEOUT_S, AppControl, Need, app_control
from dags.operators.app_links import QueryPageLink, SparkUiLink
from dags.operators.settings import OperationsSettings
from dags.operators.stream_health import Seen, StreamHealthTrigger, Wanted
from spark_apps.registry import apps_of
from spark_apps.runtime.scale import AppScale, write_scale
from state.clock import SystemClock

if TYPE_CHECKING:
    from airflow.sdk import Context


class AppAction(StrEnum):
    """What to do with an app. ENSURE leaves a running app alone."""

    ENSURE = "ensure"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    SCALE = "scale"
    UPGRADE = "upgrade"


_RESTARTING = frozenset({AppAction.RESTART, AppAction.SCALE, AppAction.UPGRADE})


class StreamAppOperator(BaseOperator):
    """Does `action` to `app` and succeeds when the app's heartbeat confirms it.

    The app runs under supervisor and never as a child of the task, so nothing that happens to the task harms it. The
    task calls supervisor and then waits in a `StreamHealthTrigger`, without a worker. If task, worker, scheduler or
    triggerer are killed, the next try finds the app as it is. Repeating it is harmless. There is never a second copy:
    supervisor has one process for each app, and that process takes the app's lease. Returns {"app", "action",
    "changed", "pid", "state"}.

    `scale` writes the app's size and restarts it. `upgrade` first checks that the installed code can take over, drains
    the app, starts it, and succeeds when it reads on from its drained offsets. If the app doesn't come up after either,
    its old size is restored, it is restarted once more, and the task fails.

    Args:
        app: the app's name, which is also its program's name in the supervisor.
        action: an `AppAction`. Templated.
        scale: for `scale`: text by field of `AppScale`; "None" leaves a field as it is, "0" unsets it. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("action", "scale")
    operator_extra_links = (QueryPageLink(), SparkUiLink())
    ui_color = "#d7ecd9"

    def __init__(
        self,
        *,
        app: str,
        action: str = AppAction.ENSURE,
        scale: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.action = action
        self.scale = dict(scale or {})

    def execute(self, context: Context) -> dict[str, object]:
        """Begins the action, and waits for its end unless there is nothing to do.

        Raises:
            AirflowFailException: the action can't be done like that; nothing was changed.
        """
        del context
        action, control = AppAction(self.action), self._control()
        self.log.info("%s %s", action, self.app)
        carried: dict[str, Any] = {"changed": False}
        need = Need.RESTART if action in _RESTARTING else Need.START
        if action is AppAction.SCALE:
            carried["before"] = self._change_scale()
        if action is AppAction.UPGRADE:
            for app in apps_of(self.app):
                check_code(app)
        if action is AppAction.ENSURE or (action is AppAction.SCALE and carried["before"] is None):
            need = control.needs()
        if need is Need.NOTHING:
            return self._result(carried)
        if action is AppAction.STOP or need is Need.RESTART:
            self._stop(control, carried, then_start=action is not AppAction.STOP)
        if control.is_stopping():
            self._await_end(carried, then_start=True)
        self._start(control, carried)
        raise AssertionError("unreachable: a deferred task ends by an exception")

    def on_ended(self, context: Context, event: dict[str, Any]) -> dict[str, object]:
        """Called when the app has ended, or the wait has failed. Starts the app again if `then_start`."""
        del context
        _check(event)
        carried = event["carried"]
        if carried["then_start"]:
            self._start(self._control(), carried | {"changed": True})
        return self._result(carried)

    def on_running(self, context: Context, event: dict[str, Any]) -> dict[str, object]:
        """Called when the app runs, or couldn't.

        Raises:
            AirflowFailException: it can't run until something is changed, or it was restarted as before the action.
            AirflowException: it didn't run in time.
        """
        del context
        carried = event["carried"]
        if "failed" in carried:
            now = "It runs again as before." if event["seen"] == Seen.REACHED else event["message"]
            msg = f"{self.action} failed: {carried['failed']}\nThe app was restarted. {now}"
            raise AirflowFailException(msg)
        if event["seen"] != Seen.REACHED and self.action in {AppAction.SCALE, AppAction.UPGRADE}:
            self._go_back(carried, event["message"])
        _check(event)
        return self._result(carried)

    def _change_scale(self) -> dict[str, int] | None:
        before = change_scale(self.app, self.scale, self._settings())
        return None if before is None else before.model_dump(exclude_none=True)

    def _go_back(self, carried: dict[str, Any], failed: str) -> None:
        self.log.error("%s failed, so the app is restarted as it was: %s", self.action, failed)
        if carried.get("before") is not None:
            write_scale(self._settings().scale_file(self.app), AppScale(**carried["before"]))
        self._stop(self._control(), {"changed": True, "failed": failed}, then_start=True)

    def _stop(self, control: AppControl, carried: dict[str, Any], *, then_start: bool) -> None:
        self._await_end(carried | {"changed": control.begin_stop() or carried["changed"]}, then_start=then_start)

    def _start(self, control: AppControl, carried: dict[str, Any]) -> None:
        wanted = Wanted.RUNNING
        if self.action == AppAction.UPGRADE and "failed" not in carried:
            wanted, beat = Wanted.GOING_ON, control.heartbeat()
            carried = carried | {"drained": {} if beat is None else beat.offsets}
        carried = carried | {"changed": control.begin_start() or carried["changed"]}
        self._wait(wanted, self._settings().app_start_timeout_s, "on_running", carried)

    def _await_end(self, carried: dict[str, Any], *, then_start: bool) -> None:
        self._wait(Wanted.ENDED, APP_STOP_TIMEOUT_S, "on_ended", carried | {"then_start": then_start})

    def _wait(self, wanted: Wanted, timeout_s: float, then: str, carried: dict[str, Any]) -> None:
        deadline_ms = SystemClock().now_ms() + int(timeout_s * 1000)
        self.defer(
            trigger=StreamHealthTrigger(app=self.app, wanted=wanted, deadline_ms=deadline_ms, carried=carried),
            method_name=then,
        )

    def _result(self, carried: Mapping[str, Any]) -> dict[str, object]:
        beat = self._control().heartbeat()
        return {
            "app": self.app,
            "action": self.action,
            "changed": carried["changed"],
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
