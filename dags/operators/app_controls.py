"""Makes the `AppControl` of an app, or of the shared driver, from the settings of the process."""

from __future__ import annotations

import threading

from dags.operators.app_control import APP_STOP_TIMEOUT_S, AppControl, Patience
from dags.operators.settings import OperationsSettings
from dags.operators.shared_beat import shared_beat
from dags.operators.supervisor_rpc import SupervisorRpc
from spark_apps.registry import apps_of
from spark_apps.runtime.heartbeat import Heartbeat, read_heartbeat
from state.clock import SystemClock


def app_control(app: str, settings: OperationsSettings) -> AppControl:
    """The control of `app`, or of the shared driver; see `AppControl`.

    Raises:
        SupervisorUnreachableError: there are no credentials of a supervisor.
    """
    return AppControl(
        app,
        supervisor=SupervisorRpc.from_secret(settings.supervisor_secret),
        heartbeat=lambda: _heartbeat(app, settings),
        patience=Patience(settings.app_start_timeout_s, APP_STOP_TIMEOUT_S, settings.watch_stale_s),
        clock=SystemClock(),
        pause=threading.Event().wait,
    )


def _heartbeat(app: str, settings: OperationsSettings) -> Heartbeat | None:
    return shared_beat(app, [read_heartbeat(settings.heartbeat_file(name)) for name in apps_of(app)])
