"""Processes of a platform that run and do nothing: `up` continues those that are frozen and ends those that hang."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from storekeeper.ops.bring_up import Report
from storekeeper.ops.overview.model import Process
from storekeeper.ops.overview.processes import NO_ANSWER, Probes, is_frozen
from storekeeper.ops.programs import STOP_TIMEOUT_S
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import stop_all
from storekeeper.ops.supervisor_rpc import SupervisorRpc

_PATIENCE_S = 60
"""How long a process may take for one answer: on a busy machine it may be slow, and a restart would make that worse."""


def continue_frozen(client: SupervisorRpc, report: Report) -> None:
    """Continues the processes that a signal has stopped: none of them has lost anything."""
    for info in client.processes():
        if info.pid and is_frozen(info.pid):
            with suppress(ProcessLookupError):
                os.kill(info.pid, signal.SIGCONT)
            report(f"continued {info.name}, which a signal had stopped")


def end_hanging(
    client: SupervisorRpc, processes: Iterable[Process], settings: PlatformSettings, report: Report
) -> None:
    """Ends broker, nodes and control if they run, had the time to start, and still answer nothing.

    Apps are not among them: they end themselves. `processes` are as they were just seen; `report` is called with what
    is ended.
    """
    silent = [
        process.name
        for process in processes
        if process.detail == NO_ANSWER and (process.uptime_s or 0) > settings.start_timeout_s
    ]
    if not silent:
        return
    report(f"waiting for an answer of {', '.join(silent)}")
    patient = Probes(settings, patience_s=_PATIENCE_S)
    with ThreadPoolExecutor(max_workers=len(silent)) as pool:
        problems = dict(zip(silent, pool.map(patient.problem, silent), strict=True))
    hanging = [name for name, problem in problems.items() if problem == NO_ANSWER]
    if hanging:
        report(f"restarting {', '.join(hanging)}: no answer within {_PATIENCE_S} s")
        stop_all(client, hanging, STOP_TIMEOUT_S + 5)
