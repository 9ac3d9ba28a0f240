"""Looks after the processes of apps: restarts those that a restart may heal, and names those that need a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
import structlog

from deploy.control.app_control import ProcessSupervisor, app_control
from deploy.control.settings import OperationsSettings
from deploy.control.watch_rules import Judgement, WatchAction, WatchHistory, WatchLimits, judge, sickest
from spark_apps.runtime.heartbeat import read_heartbeat
from state.clock import Clock
from state.errors import StateError
from state.whole_files import write_whole

_ALERT_S = 300
"""How long an app may be unhealthy before there is an alert: two runs of the DAG, and the start of an app."""
_WINDOW_S = 1800
"""The time over which restarts are counted: an app that runs for longer between two has recovered."""
_BACKOFF_S = 60
"""Pause after the first restart. It doubles with each further one."""
_LOG_BYTES = 2000
"""How much of an app's log an alert shows: a traceback."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Watched:
    """What was done about each process and why, and what needs a person."""

    actions: dict[str, dict[str, str]] = field(default_factory=dict)
    alerts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AppWatcher:
    """Looks after apps that `keeper` keeps alive; `settings` have the limits and the places of heartbeats."""

    keeper: ProcessSupervisor
    settings: OperationsSettings
    clock: Clock

    def look(self, programs: Mapping[str, Sequence[str]]) -> Watched:
        """Looks at all of them once. It doesn't wait until a restarted one is healthy: the next look checks that.

        Args:
            programs: the processes that must run, each with the names of the heartbeats that it writes.
        """
        found = Watched()
        for program, apps in programs.items():
            judgement, alert = self._look_after(program, apps)
            found.actions[program] = {"action": str(judgement.action), "reason": judgement.reason}
            if alert:
                found.alerts.append(alert)
        return found

    def _look_after(self, program: str, apps: Sequence[str]) -> tuple[Judgement, str | None]:
        history_file = self.settings.watch_history_file(program)
        process, limits, now_ms = self.keeper.process(program), _limits(self.settings), self.clock.now_ms()
        beats = [read_heartbeat(self.settings.heartbeat_file(app)) for app in apps]
        beat = sickest(process, beats, limits, now_ms)
        judgement = judge(process, beat, read_history(history_file), limits, now_ms)
        _log.info("app_watched", app=program, action=str(judgement.action), reason=judgement.reason)
        # Written before the restart, so that the restart counts even if this process dies during it.
        write_history(history_file, judgement.history)
        try:
            if judgement.action is WatchAction.RESTART:
                app_control(program, self.settings, self.keeper).stop()
                self.keeper.start(program)
        except StateError as error:
            return judgement, f"{program} could not be restarted ({judgement.reason}): {error}"
        if judgement.action is not WatchAction.ALERT:
            return judgement, None
        log = self.keeper.log_end(program, _LOG_BYTES)
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
