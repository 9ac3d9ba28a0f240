"""The file in which a running app reports that it is alive, and its progress. Free of Spark.

One JSON object, replaced as a whole, so that a reader never sees half of it. Its keys are the fields of `Heartbeat`.
Whether the app works is judged by it alone, by one rule for operators and all views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import orjson

from storekeeper.whole_files import write_whole

Offsets = Mapping[str, Mapping[str, int]]
"""By topic and partition: the offset of the next record."""


class AppState(StrEnum):
    """The state of an app. STOPPED and FAILED are final; any other state may be left over from a dead process."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """It waits between two batches, until a hand-over to another generation continues."""
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


HEARTBEAT_STALE_MS = 30_000
LIVE_STATES = frozenset({AppState.STARTING, AppState.RUNNING, AppState.PAUSED, AppState.STOPPING})
"""States in which heartbeats must keep coming."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One beat. Times are epoch milliseconds, None while unknown.

    `offsets` are those of the last committed batch, `latest_offsets` the ends of the source topics as the broker gave
    them last: the app has processed everything when both are equal. Totals count from the start of the process, except
    those of dead letters and of records left out, which count from the app's first start.
    `last_progress_ms` is when it last committed a batch or had nothing to do, `last_batch_ms` when a batch last ended,
    `input_rows_per_second` the rate of the last seconds.
    `phases_ms_total` is the time that batches took, by phase, with Structured Streaming's names; `triggerExecution` is
    the total.
    `watermark_ms` is the newest timestamp that was seen. `starts` counts the starts of the app in this run directory.
    `migrations` are the names of its stores' migrations that its code has registered; None if unknown. `dropped_total`
    records came too late or had no key. `restoring` is what its tasks restore now: store, partition, offsets done and
    in total, the seconds that are left, and the changelog whose open transaction it awaits. `exit_code` is that of the
    process of an app that has FAILED; None if it is unknown. `stalls` is how many processes in a row, this one the
    last, have ended because the app made no progress.
    """

    app: str
    generation: int
    pid: int
    state: AppState
    started_at_ms: int
    updated_at_ms: int
    jvm_pid: int | None = None
    last_progress_ms: int | None = None
    last_batch_ms: int | None = None
    batch_id: int | None = None
    input_rows: int = 0
    input_rows_total: int = 0
    input_rows_per_second: float = 0.0
    batch_duration_ms: int | None = None
    dead_letters_total: int = 0
    dropped_total: int = 0
    restoring: tuple[Mapping[str, Any], ...] = ()
    watermark_ms: int | None = None
    batches_total: int = 0
    phases_ms_total: Mapping[str, int] = field(default_factory=dict)
    starts: int = 1
    offsets: Offsets = field(default_factory=dict)
    latest_offsets: Offsets = field(default_factory=dict)
    error: str | None = None
    exit_code: int | None = None
    stalls: int = 0
    migrations: Sequence[str] | None = None

    @property
    def caught_up(self) -> bool:
        """Whether the app had processed all that its sources held at the time of this beat."""
        return bool(self.offsets) and self.offsets == self.latest_offsets

    @property
    def restore_remaining(self) -> int:
        """How many offsets of changelogs its tasks have still to restore."""
        return sum(one["total"] - one["done"] for one in self.restoring)

    def age_ms(self, now_ms: int) -> int | None:
        """Time since this beat; None if nobody knows: it is of a later time, as the clock was set back since."""
        age_ms = now_ms - self.updated_at_ms
        return max(0, age_ms) if age_ms >= -HEARTBEAT_STALE_MS else None


def write_heartbeat(path: Path, heartbeat: Heartbeat) -> None:
    """Replaces the file at `path` in one step; makes its folder if need be. One writer at a time."""
    write_whole(path, orjson.dumps(asdict(heartbeat)))


def read_heartbeat(path: Path) -> Heartbeat | None:
    """The last beat in the file at `path`; None if there is no file, or none that this version understands."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Heartbeat)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_silent(beat: Heartbeat, now_ms: int) -> bool:
    """Whether heartbeats should have come since this one. One of a later time is an old one: an app that lives writes
    another soon after the clock was set back.
    """
    age_ms = beat.age_ms(now_ms)
    return beat.state in LIVE_STATES and (age_ms is None or age_ms > HEARTBEAT_STALE_MS)


def heartbeat_problem(beat: Heartbeat | None, pid: int, now_ms: int) -> str | None:
    """Why an app is not healthy, according to its heartbeat; None if it is. `beat` may come from an earlier process."""
    if beat is None:
        return "no heartbeat yet"
    if beat.pid != pid:
        return _starting(beat)
    if beat.state is not AppState.RUNNING:
        return str(beat.state).lower() + (f": {beat.error}" if beat.error else "")
    if not is_silent(beat, now_ms):
        return None
    age_ms = beat.age_ms(now_ms)
    return "no heartbeat since the clock was set back" if age_ms is None else f"no heartbeat for {age_ms // 1000} s"


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
