"""The control of an app of this run directory, from the settings of the process."""

from __future__ import annotations

import threading

from dags.operators.app_control import AppControl, Patience
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc
from state.clock import SystemClock


def app_control(app: str, settings: OperationsSettings) -> AppControl:
    """The control of `app`; see `AppControl`.

    Raises:
        SupervisorUnreachableError: there are no credentials of a supervisor.
    """
    return AppControl(
        app,
        supervisor=SupervisorRpc.from_secret(settings.supervisor_secret, timeout_s=settings.supervisor_timeout_s),
        heartbeat_file=settings.heartbeat_file(app),
        patience=Patience(settings.app_start_timeout_s, settings.app_stop_timeout_s, settings.watch_stale_s),
        clock=SystemClock(),
        pause=threading.Event().wait,
    )
