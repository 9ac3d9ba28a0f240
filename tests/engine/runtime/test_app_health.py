"""Whether an app works, by its heartbeat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.engine.runtime.app_health import heartbeat_problem
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat


def heartbeat(state: AppState = AppState.RUNNING, pid: int = 7, error: str | None = None) -> Heartbeat:
    return Heartbeat("pos", 1, pid, state, started_at_ms=0, updated_at_ms=100_000, error=error)


@pytest.mark.parametrize(
    ("beat", "now_ms", "problem"),
    [
        (heartbeat(), 100_000, None),
        (heartbeat(), 130_000, None),
        (heartbeat(), 130_001, "no heartbeat for 30 s"),
        (heartbeat(pid=6), 100_000, "starting"),
        (heartbeat(AppState.STARTING), 100_000, "starting"),
        (heartbeat(AppState.FAILED, error="no topic"), 100_000, "failed: no topic"),
        (
            replace(heartbeat(AppState.FAILED, pid=6, error="no topic"), starts=4),
            100_000,
            "starting again (start 5) after it failed: no topic",
        ),
        (replace(heartbeat(AppState.FAILED, pid=6), starts=1), 100_000, "starting again (start 2) after it failed"),
        (None, 100_000, "no heartbeat yet"),
    ],
)
def test_an_app_is_healthy_only_by_its_own_fresh_heartbeat(
    beat: Heartbeat | None, now_ms: int, problem: str | None
) -> None:
    assert heartbeat_problem(beat, 7, now_ms) == problem
