"""The operator that looks after running apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.app_controls import app_control
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc
from dags.operators.watch_history import read_history, write_history
from dags.operators.watch_rules import Judgement, WatchAction, WatchLimits, judge
from spark_apps.heartbeat import read_heartbeat
from state.clock import SystemClock
from state.errors import StateError

if TYPE_CHECKING:
    from airflow.sdk import Context


class WatchStreamsOperator(BaseOperator):
    """Judges each app, restarts those that a restart may heal, and fails if people are to be told.

    It doesn't wait for a restarted app: the next look is a minute away. Returns {app: {"action", "reason"}}.

    Args:
        apps: the names of the apps to look after.
        **kwargs: those of every operator.
    """

    ui_color = "#f6e3c5"

    def __init__(self, *, apps: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.apps = apps

    def execute(self, context: Context) -> dict[str, dict[str, str]]:
        """Looks at all apps once.

        Raises:
            AirflowFailException: at least one app needs people; the message has the reasons and the ends of the logs.
        """
        del context
        settings = OperationsSettings()  # type: ignore[call-arg]
        supervisor = SupervisorRpc.from_secret(settings.supervisor_secret, timeout_s=settings.supervisor_timeout_s)
        judgements, alerts = {}, []
        for app in self.apps:
            judgement, alert = self._look_after(app, supervisor, settings)
            judgements[app] = {"action": str(judgement.action), "reason": judgement.reason}
            if alert:
                alerts.append(alert)
        if alerts:
            raise AirflowFailException("\n\n".join(alerts))
        return judgements

    def _look_after(
        self, app: str, supervisor: SupervisorRpc, settings: OperationsSettings
    ) -> tuple[Judgement, str | None]:
        history_file = settings.watch_history_file(app)
        judgement = judge(
            supervisor.process(app),
            read_heartbeat(settings.heartbeat_file(app)),
            read_history(history_file),
            _limits(settings),
            SystemClock().now_ms(),
        )
        self.log.info("%s: %s (%s)", app, judgement.action, judgement.reason)
        # Remembered before it is tried, so that a restart that takes the task with it counts too.
        write_history(history_file, judgement.history)
        try:
            if judgement.action is WatchAction.RESTART:
                app_control(app, settings).stop()
                supervisor.start(app)
        except StateError as error:
            return judgement, f"{app} could not be restarted ({judgement.reason}): {error}"
        if judgement.action is not WatchAction.ALERT:
            return judgement, None
        log = supervisor.log_end(app, settings.watch_log_bytes)
        return judgement, f"{app} needs attention: {judgement.reason}. The end of its log:\n{log}"


def _limits(settings: OperationsSettings) -> WatchLimits:
    return WatchLimits(
        stale_ms=settings.watch_stale_s * 1000,
        progress_ms=settings.watch_progress_s * 1000,
        start_ms=settings.watch_start_s * 1000,
        alert_ms=settings.watch_alert_s * 1000,
        restarts=settings.watch_restarts,
        window_ms=settings.watch_window_s * 1000,
        backoff_ms=settings.watch_backoff_s * 1000,
    )
