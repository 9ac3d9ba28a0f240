"""Makes the `AppControl` of an app, or of the shared driver, from the settings of the process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dags.operators.app_control import APP_STOP_TIMEOUT_S, AppControl, Patience
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc
from spark_apps.registry import apps_of
from spark_apps.runtime.heartbeat import AppState, Heartbeat, Offsets, read_heartbeat
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


def shared_beat(name: str, beats: Sequence[Heartbeat | None]) -> Heartbeat | None:
    """The heartbeat of a process: RUNNING if all apps are, the oldest update time, each partition's lowest offset.

    Args:
        name: the process's.
        beats: of each app.

    Returns:
        None if an app has left none. If the beats have different pids, the pid and state of the one started first.
    """
    there = [beat for beat in beats if beat is not None]
    if not there or len(there) < len(beats):
        return None
    told = min(there, key=lambda beat: beat.started_at_ms)
    if len({beat.pid for beat in there}) == 1:
        told = next((beat for beat in there if beat.state is not AppState.RUNNING), told)
    progress = [beat.last_progress_ms for beat in there]
    return replace(
        told,
        app=name,
        updated_at_ms=min(beat.updated_at_ms for beat in there),
        last_progress_ms=None if None in progress else min(moment for moment in progress if moment is not None),
        offsets=_least([beat.offsets for beat in there]),
    )


def _least(positions: Sequence[Offsets]) -> Offsets:
    found: dict[str, dict[str, int]] = {}
    for position in positions:
        for topic, offsets in position.items():
            found[topic] = _least_of(found.get(topic, {}), offsets)
    return found


def _least_of(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {**one, **{number: min(offset, one.get(number, offset)) for number, offset in other.items()}}
