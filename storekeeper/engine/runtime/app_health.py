"""Judges by its heartbeat whether a stream app works: the one rule of operators and of all views."""

from __future__ import annotations

from collections.abc import Iterator

from storekeeper.engine.runtime.heartbeat import LIVE_STATES, AppState, Heartbeat

HEARTBEAT_STALE_MS = 30_000


def is_silent(beat: Heartbeat, now_ms: int) -> bool:
    """Whether heartbeats should have come since this one."""
    return beat.state in LIVE_STATES and beat.age_ms(now_ms) > HEARTBEAT_STALE_MS


def heartbeat_problem(beat: Heartbeat | None, pid: int, now_ms: int) -> str | None:
    """Why an app is not healthy, according to its heartbeat; None if it is. `beat` may come from an earlier process."""
    if beat is None:
        return "no heartbeat yet"
    if beat.pid != pid:
        return _starting(beat)
    if beat.state is not AppState.RUNNING:
        return str(beat.state).lower() + (f": {beat.error}" if beat.error else "")
    return f"no heartbeat for {beat.age_ms(now_ms) // 1000} s" if is_silent(beat, now_ms) else None


def _starting(before: Heartbeat) -> str:
    """The problem of an app without a heartbeat yet, with the last start's error: it may fail again and again."""
    if before.state is not AppState.FAILED:
        return "starting"
    return f"starting again (start {before.starts + 1}) after it failed" + (f": {before.error}" if before.error else "")


def restoring(beat: Heartbeat) -> str | None:
    """What a running app's tasks are restoring, with percent and seconds left; None if they restore nothing."""
    if beat.state is not AppState.RUNNING or not beat.restoring:
        return None
    if awaited := sorted(one["awaits"] for one in beat.restoring if one.get("awaits")):
        return f"waits for an open transaction in {awaited[0]} to end (a clean-up?)"
    total = sum(one["total"] for one in beat.restoring)
    partitions = "1 store partition" if len(beat.restoring) == 1 else f"{len(beat.restoring)} store partitions"
    percent = 100 * (total - beat.restore_remaining) // max(total, 1)
    return f"restores {partitions}: {percent} %, {max(one['eta_s'] for one in beat.restoring):.0f} s left"


def unread(beat: Heartbeat) -> Iterator[tuple[str, str, int, int]]:
    """Topic, partition, next offset and lag in offsets of each partition that an app reads."""
    for topic, partitions in beat.offsets.items():
        ends = beat.latest_offsets.get(topic, {})
        for partition, offset in partitions.items():
            yield topic, partition, offset, max(0, ends.get(partition, offset) - offset)


def behind(beat: Heartbeat) -> int | None:
    """How many offsets an app has still to read; None before its heartbeat has offsets."""
    return sum(left for *_, left in unread(beat)) if beat.offsets and beat.latest_offsets else None
