"""Looks after the processes of apps: restarts those that a restart may heal, and names those that need a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum, StrEnum, auto
from pathlib import Path

import orjson
import structlog

from storekeeper.clock import Clock
from storekeeper.engine.runtime.app_health import heartbeat_problem
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.errors import RefusedError, StateError
from storekeeper.ops.control.app_control import app_control
from storekeeper.ops.control.process_supervisor import ProcessSupervisor
from storekeeper.ops.operations_settings import OperationsSettings
from storekeeper.ops.supervisor_rpc import ENDED_STATES, ProcessInfo
from storekeeper.program import NO_RESTART
from storekeeper.whole_files import write_whole

_ALERT_MS = 300_000
"""How long an app may be unhealthy before there is an alert: two runs of the DAG, and the start of an app."""
_WINDOW_MS = 1_800_000
"""The time over which restarts are counted: an app that runs for longer between two has recovered."""
_BACKOFF_MS = 60_000
"""Pause after the first restart. It doubles with each further one."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Watched:
    """What was done about each process and why, and what needs a person."""

    actions: dict[str, dict[str, str]] = field(default_factory=dict)
    alerts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AppWatcher:
    """Watches apps that `supervisor` keeps alive; `settings` have the limits and the places of heartbeats."""

    supervisor: ProcessSupervisor
    settings: OperationsSettings
    clock: Clock

    def check(self, programs: Mapping[str, Sequence[str]]) -> Watched:
        """Checks all of them once. It doesn't wait until a restarted one is healthy: the next check finds that.

        Args:
            programs: the processes that must run, each with the names of the heartbeats that it writes.
        """
        found = Watched()
        for program, apps in programs.items():
            decision, alert = self._watch_program(program, apps)
            found.actions[program] = {"action": str(decision.action), "reason": decision.reason}
            if alert:
                found.alerts.append(alert)
        return found

    def _watch_program(self, program: str, apps: Sequence[str]) -> tuple[Decision, str | None]:
        history_file = self.settings.watch_history_file(program)
        process, now_ms = self.supervisor.process(program), self.clock.now_ms()
        beats = [read_heartbeat(self.settings.heartbeat_file(app)) for app in apps]
        beat = worst_health(process, beats, self.settings, now_ms)
        decision = decide(process, beat, read_history(history_file), self.settings, now_ms)
        _log.info("app_watched", app=program, action=str(decision.action), reason=decision.reason)
        # Written before the restart, so that the restart counts even if this process dies during it.
        write_history(history_file, decision.history)
        try:
            if decision.action is WatchAction.RESTART:
                app_control(program, self.settings, self.supervisor).stop()
                self.supervisor.start(program)
        except StateError as error:
            if isinstance(error, RefusedError):  # it was not stopped
                write_history(history_file, replace(decision.history, restarts_ms=decision.history.restarts_ms[:-1]))
            return decision, f"{program} could not be restarted ({decision.reason}): {error}"
        if decision.action is not WatchAction.ALERT:
            return decision, None
        log = self.supervisor.log_end(program)
        which = f" ({beat.app})" if beat is not None and len(apps) > 1 else ""
        return decision, f"{program} needs attention: {decision.reason}{which}. The end of its log:\n{log}"


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


def forget_history(path: Path) -> None:
    """Removes the file, before a stop on purpose: the app is not to be taken for one that a restart stopped."""
    path.unlink(missing_ok=True)


class WatchAction(StrEnum):
    """What is to be done about an app."""

    NONE = "none"
    RESTART = "restart"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class WatchHistory:
    """What is remembered of an app: since when it has been unhealthy (None: it was healthy), and its restart times."""

    unhealthy_since_ms: int | None = None
    restarts_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
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


def decide(
    process: ProcessInfo, beat: Heartbeat | None, history: WatchHistory, limits: OperationsSettings, now_ms: int
) -> Decision:
    """Decides about one app at `now_ms`.

    A sick app is restarted at once, then again after pauses that double, up to the allowed number of restarts within
    the window. After that, on a configuration error, or if the app has been unhealthy for too long for any reason, each
    decision is an alert until the app is healthy or stopped. An app that a restart has stopped and not started again
    is sick.
    """
    health, reason = _health(process, beat, limits, now_ms)
    if health is _Health.STOPPED and _was_stopped_by_restart(process, history):
        health, reason = _Health.SICK, "stopped by a restart that did not finish"
    restarts = tuple(at for at in history.restarts_ms if now_ms - at < _WINDOW_MS)
    if health is _Health.STOPPED:
        return Decision(WatchAction.NONE, reason, WatchHistory())
    if health is _Health.HEALTHY:
        return Decision(WatchAction.NONE, reason, WatchHistory(restarts_ms=restarts))
    since = now_ms if history.unhealthy_since_ms is None else history.unhealthy_since_ms
    kept = WatchHistory(unhealthy_since_ms=since, restarts_ms=restarts)
    exhausted = len(restarts) >= limits.watch_restarts
    if health is _Health.SICK and not exhausted and _backed_off(restarts, now_ms):
        return Decision(WatchAction.RESTART, reason, replace(kept, restarts_ms=(*restarts, now_ms)))
    why_alert = None
    if health is _Health.MISCONFIGURED:
        why_alert = reason
    elif health is _Health.SICK and exhausted:
        why_alert = f"{reason}; {len(restarts)} restarts did not help"
    elif now_ms - since >= _ALERT_MS:
        why_alert = f"{reason}; not healthy for {_seconds(now_ms - since)}"
    return Decision(WatchAction.ALERT if why_alert else WatchAction.NONE, why_alert or reason, kept)


def worst_health(
    process: ProcessInfo, beats: Iterable[Heartbeat | None], limits: OperationsSettings, now_ms: int
) -> Heartbeat | None:
    """The heartbeat with the worst health, for a process that runs several apps."""
    return max(beats, key=lambda beat: _health(process, beat, limits, now_ms)[0].value)


def _was_stopped_by_restart(process: ProcessInfo, history: WatchHistory) -> bool:
    """Whether a stopped process was not started since its last restart began. Its start is exact to a second."""
    return bool(history.restarts_ms) and process.started_at_ms < history.restarts_ms[-1] // 1000 * 1000


def _backed_off(restarts: tuple[int, ...], now_ms: int) -> bool:
    return not restarts or now_ms - restarts[-1] >= _BACKOFF_MS * 2 ** (len(restarts) - 1)


def _health(
    process: ProcessInfo, beat: Heartbeat | None, limits: OperationsSettings, now_ms: int
) -> tuple[_Health, str]:
    if process.state == "STOPPED":
        never = not process.started_at_ms
        return (_Health.SICK, "not started since the supervisor began") if never else (_Health.STOPPED, "stopped")
    if process.state in ENDED_STATES:
        cause = f" ({beat.error})" if beat is not None and beat.error else ""
        if process.exit_status in NO_RESTART:
            return _Health.MISCONFIGURED, f"ended because of its configuration{cause}"
        return _Health.SICK, f"ended with exit code {process.exit_status}{cause}"
    if process.state != "RUNNING":
        return _Health.WAITING, f"the supervisor says {process.state}"
    if beat is None or beat.pid != process.pid:
        return _first_beat_due(process, beat, limits, now_ms)
    return _health_by_beat(process, beat, limits, now_ms)


def _first_beat_due(
    process: ProcessInfo, beat: Heartbeat | None, limits: OperationsSettings, now_ms: int
) -> tuple[_Health, str]:
    age_ms = now_ms - process.started_at_ms
    before = f" (the process before it: {beat.error})" if beat is not None and beat.error else ""
    reason = f"no heartbeat of process {process.pid}, started {_seconds(age_ms)} ago{before}"
    return (_Health.WAITING if age_ms <= limits.app_start_timeout_s * 1000 else _Health.SICK), reason


def _health_by_beat(
    process: ProcessInfo, beat: Heartbeat, limits: OperationsSettings, now_ms: int
) -> tuple[_Health, str]:
    if heartbeat_problem(beat, process.pid, now_ms, limits.watch_stale_s * 1000) is None:
        return _health_by_progress(beat, limits, now_ms)
    if beat.age_ms(now_ms) > limits.watch_stale_s * 1000:
        return _Health.SICK, f"the last heartbeat is {_seconds(beat.age_ms(now_ms))} old"
    if beat.state is AppState.STARTING and now_ms - process.started_at_ms > limits.app_start_timeout_s * 1000:
        return _Health.SICK, f"still starting after {_seconds(now_ms - process.started_at_ms)}"
    return _Health.WAITING, f"the heartbeat says {beat.state}"


def _health_by_progress(beat: Heartbeat, limits: OperationsSettings, now_ms: int) -> tuple[_Health, str]:
    progress_ms = beat.started_at_ms if beat.last_progress_ms is None else beat.last_progress_ms
    if not beat.caught_up and beat.latest_offsets and now_ms - progress_ms > limits.watch_progress_s * 1000:
        return _Health.SICK, f"input waits, but no batch was committed for {_seconds(now_ms - progress_ms)}"
    return _Health.HEALTHY, "running"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.0f} s"
