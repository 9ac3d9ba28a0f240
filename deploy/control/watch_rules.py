"""Decides when a watched app is restarted and when people are alerted: pure functions of what was observed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto

from deploy.supervisor_rpc import ENDED_STATES, ProcessInfo
from spark_apps.runtime.app_health import heartbeat_problem
from spark_apps.runtime.heartbeat import AppState, Heartbeat
from state.program import NO_RESTART


class WatchAction(StrEnum):
    """What is to be done about an app."""

    NONE = "none"
    RESTART = "restart"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """The limits in milliseconds; `OperationsSettings` describes them."""

    stale_ms: float
    progress_ms: float
    start_ms: float
    alert_ms: float
    restarts: int
    window_ms: float
    backoff_ms: float


@dataclass(frozen=True, slots=True)
class WatchHistory:
    """What is remembered of an app: since when it has been unhealthy (None: it was healthy), and its restart times."""

    unhealthy_since_ms: int | None = None
    restarts_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do, why, and what to remember."""

    action: WatchAction
    reason: str
    history: WatchHistory


class _Health(Enum):
    """From the best to the worst."""

    HEALTHY = auto()
    STOPPED = auto()  # stopped on purpose
    WAITING = auto()  # time may heal it
    SICK = auto()  # a restart may heal it
    MISCONFIGURED = auto()  # only people can heal it


def judge(
    process: ProcessInfo, beat: Heartbeat | None, history: WatchHistory, limits: WatchLimits, now_ms: int
) -> Judgement:
    """Decides about one app at `now_ms`.

    A sick app is restarted at once, then again after pauses that double, up to the allowed number of restarts within
    the window. After that, on a configuration error, or if the app has been unhealthy for too long for any reason, each
    judgement is an alert until the app is healthy or stopped.
    """
    health, reason = _health(process, beat, limits, now_ms)
    restarts = tuple(at for at in history.restarts_ms if now_ms - at < limits.window_ms)
    if health is _Health.STOPPED:
        return Judgement(WatchAction.NONE, reason, WatchHistory())
    if health is _Health.HEALTHY:
        return Judgement(WatchAction.NONE, reason, WatchHistory(restarts_ms=restarts))
    since = now_ms if history.unhealthy_since_ms is None else history.unhealthy_since_ms
    kept = WatchHistory(unhealthy_since_ms=since, restarts_ms=restarts)
    exhausted = len(restarts) >= limits.restarts
    if health is _Health.SICK and not exhausted and _backed_off(restarts, limits, now_ms):
        return Judgement(WatchAction.RESTART, reason, replace(kept, restarts_ms=(*restarts, now_ms)))
    why_alert = None
    if health is _Health.MISCONFIGURED:
        why_alert = reason
    elif health is _Health.SICK and exhausted:
        why_alert = f"{reason}; {len(restarts)} restarts did not help"
    elif now_ms - since >= limits.alert_ms:
        why_alert = f"{reason}; not healthy for {_seconds(now_ms - since)}"
    return Judgement(WatchAction.ALERT if why_alert else WatchAction.NONE, why_alert or reason, kept)


def sickest(
    process: ProcessInfo, beats: Iterable[Heartbeat | None], limits: WatchLimits, now_ms: int
) -> Heartbeat | None:
    """The heartbeat with the worst health, for a process that runs several apps."""
    return max(beats, key=lambda beat: _health(process, beat, limits, now_ms)[0].value)


def _backed_off(restarts: tuple[int, ...], limits: WatchLimits, now_ms: int) -> bool:
    return not restarts or now_ms - restarts[-1] >= limits.backoff_ms * 2 ** (len(restarts) - 1)


def _health(process: ProcessInfo, beat: Heartbeat | None, limits: WatchLimits, now_ms: int) -> tuple[_Health, str]:
    if process.state == "STOPPED":
        never = not process.started_at_ms
        return (_Health.SICK, "not started since the supervisor began") if never else (_Health.STOPPED, "stopped")
    if process.state in ENDED_STATES:
        said = f" ({beat.error})" if beat is not None and beat.error else ""
        if process.exit_status in NO_RESTART:
            return _Health.MISCONFIGURED, f"ended because of its configuration{said}"
        return _Health.SICK, f"ended with exit code {process.exit_status}{said}"
    if process.state != "RUNNING":
        return _Health.WAITING, f"the supervisor says {process.state}"
    if beat is None or beat.pid != process.pid:
        return _first_beat_due(process, beat, limits, now_ms)
    return _health_by_beat(process, beat, limits, now_ms)


def _first_beat_due(
    process: ProcessInfo, beat: Heartbeat | None, limits: WatchLimits, now_ms: int
) -> tuple[_Health, str]:
    age_ms = now_ms - process.started_at_ms
    before = f" (the process before it: {beat.error})" if beat is not None and beat.error else ""
    reason = f"no heartbeat of process {process.pid}, started {_seconds(age_ms)} ago{before}"
    return (_Health.WAITING if age_ms <= limits.start_ms else _Health.SICK), reason


def _health_by_beat(process: ProcessInfo, beat: Heartbeat, limits: WatchLimits, now_ms: int) -> tuple[_Health, str]:
    if heartbeat_problem(beat, process.pid, now_ms, limits.stale_ms) is None:
        return _health_by_progress(beat, limits, now_ms)
    if beat.age_ms(now_ms) > limits.stale_ms:
        return _Health.SICK, f"the last heartbeat is {_seconds(beat.age_ms(now_ms))} old"
    if beat.state is AppState.STARTING and now_ms - process.started_at_ms > limits.start_ms:
        return _Health.SICK, f"still starting after {_seconds(now_ms - process.started_at_ms)}"
    return _Health.WAITING, f"the heartbeat says {beat.state}"


def _health_by_progress(beat: Heartbeat, limits: WatchLimits, now_ms: int) -> tuple[_Health, str]:
    progress_ms = beat.started_at_ms if beat.last_progress_ms is None else beat.last_progress_ms
    if not beat.caught_up and beat.latest_offsets and now_ms - progress_ms > limits.progress_ms:
        return _Health.SICK, f"input waits, but no batch was committed for {_seconds(now_ms - progress_ms)}"
    return _Health.HEALTHY, "running"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.0f} s"
