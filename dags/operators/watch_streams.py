"""The operator that looks after running apps."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.app_control import app_control
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc
from dags.operators.watch_rules import Judgement, WatchAction, WatchHistory, WatchLimits, judge, sickest
from dags.operators.watched import watched_programs
from spark_apps.runtime.heartbeat import read_heartbeat
from state.clock import SystemClock
from state.errors import StateError
from state.whole_files import write_whole

if TYPE_CHECKING:
    from airflow.sdk import Context

_ALERT_S = 300
"""How long an app may be unhealthy before there is an alert: two runs of the DAG, and the start of an app."""
_WINDOW_S = 1800
"""The time over which restarts are counted: an app that runs for longer between two has recovered."""
_BACKOFF_S = 60
"""Pause after the first restart. It doubles with each further one."""
_LOG_BYTES = 2000
"""How much of an app's log an alert shows: a traceback."""


class WatchStreamsOperator(BaseOperator):
    """Judges each process of apps that must run (`watched_programs`), restarts those that a restart may heal, and fails
    if there is an alert.

    It doesn't wait until a restarted one is healthy: the next run checks that. Returns {program: {"action", "reason"}}.
    """

    ui_color = "#f6e3c5"

    def execute(self, context: Context) -> dict[str, dict[str, str]]:
        """Looks at all of them once.

        Raises:
            AirflowFailException: there is an alert; the message has the reasons and the ends of the logs.
        """
        del context
        settings = OperationsSettings()  # type: ignore[call-arg]
        supervisor = SupervisorRpc.from_secret(settings.supervisor_secret)
        judgements, alerts = {}, []
        for program, apps in watched_programs(supervisor.names(), settings.run_dir).items():
            judgement, alert = self._look_after(program, apps, supervisor, settings)
            judgements[program] = {"action": str(judgement.action), "reason": judgement.reason}
            if alert:
                alerts.append(alert)
        if alerts:
            raise AirflowFailException("\n\n".join(alerts))
        return judgements

    def _look_after(
        self, program: str, apps: tuple[str, ...], supervisor: SupervisorRpc, settings: OperationsSettings
    ) -> tuple[Judgement, str | None]:
        history_file = settings.watch_history_file(program)
        process, limits, now_ms = supervisor.process(program), _limits(settings), SystemClock().now_ms()
        beats = [read_heartbeat(settings.heartbeat_file(app)) for app in apps]
        beat = sickest(process, beats, limits, now_ms)
        judgement = judge(process, beat, read_history(history_file), limits, now_ms)
        self.log.info("%s: %s (%s)", program, judgement.action, judgement.reason)
        # Written before the restart, so that the restart counts even if the task dies during it.
        write_history(history_file, judgement.history)
        try:
            if judgement.action is WatchAction.RESTART:
                app_control(program, settings).stop()
                supervisor.start(program)
        except StateError as error:
            return judgement, f"{program} could not be restarted ({judgement.reason}): {error}"
        if judgement.action is not WatchAction.ALERT:
            return judgement, None
        log = supervisor.log_end(program, _LOG_BYTES)
        which = f" ({beat.app})" if beat is not None and len(apps) > 1 else ""
        return judgement, f"{program} needs attention: {judgement.reason}{which}. The end of its log:\n{log}"


def _limits(settings: OperationsSettings) -> WatchLimits:
    return WatchLimits(
        stale_ms=settings.watch_stale_s * 1000,
        progress_ms=settings.watch_progress_s * 1000,
        start_ms=settings.watch_start_s * 1000,
        alert_ms=_ALERT_S * 1000,
        restarts=settings.watch_restarts,
        window_ms=_WINDOW_S * 1000,
        backoff_ms=_BACKOFF_S * 1000,
    )


def read_history(path: Path) -> WatchHistory:
    """The history written last; an empty one if the file is missing or can't be parsed."""
    try:
        fields = orjson.loads(path.read_bytes())
        return WatchHistory(fields["unhealthy_since_ms"], tuple(map(int, fields["restarts_ms"])))
    except (OSError, ValueError, TypeError, KeyError):
        return WatchHistory()


def write_history(path: Path, history: WatchHistory) -> None:
    """Replaces the file in one step; makes its folder if need be."""
    write_whole(path, orjson.dumps(asdict(history)))
