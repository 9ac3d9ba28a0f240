"""The freshness of a replica: its changelog's end offset, and when it was last known to have applied all of it.

The broker is polled for the end offset. If a poll made at a moment T returns E, then a replica that has applied
everything below E holds all that was in the log at T. So:

- **staleness** is the time since the last such T: no record that was in the log before then is missing. It is an upper
  bound. Under constant traffic it is about the poll interval plus the latency of a record, as each end offset is soon
  reached. While the broker is unreachable it grows, whatever the replica holds.
- **offset lag** is the distance to the last known end offset: at most that many records of that moment are missing.
- the **source position** is the position up to which the app's input is certainly in the rows.

An end offset counts only if the broker confirms afterwards that the topic, by its id, is still the one that the rows
come from. So after a topic was deleted, or deleted and recreated, staleness grows and the lag is unknown.

The end offset is that of all that is written. Readers see committed records in front of the earliest open transaction
only, so behind one, what another writer has committed is hidden. Until it ends, staleness grows and the lag stays.

Limit: the bound holds for the moment that it was computed for; if the process is stopped between answering and sending,
that time is added.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.position import Position
from storekeeper.protocol.replica_states import ReplicaRole

_MAX_PENDING = 64


@dataclass(frozen=True, slots=True)
class ReplicaFreshness:
    """One look at how fresh a replica is.

    Attributes:
        topic, partition: its changelog partition.
        role: whether queries prefer it.
        caught_up: whether it has reached the end of the log once since it was opened.
        offset: next changelog offset to apply; all below it is in the rows.
        offset_lag: how many records below the last known end offset are missing at most; None while it is unknown.
        end_age_ms: how long ago that end offset was requested, rounded up; None while it is unknown.
        staleness_ms: an upper bound, rounded up: all that was in the log that long ago is in the rows. None: unknown.
        source: next offsets of the app's input: every change that comes from records below is in the rows.
    """

    topic: str
    partition: int
    role: ReplicaRole
    caught_up: bool
    offset: int
    offset_lag: int | None
    end_age_ms: int | None
    staleness_ms: int | None
    source: Position = field(default_factory=Position)


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A request for a log's end offset: when it was made, on the monotonic clock, and the replica's position then.

    Attributes:
        asked_at_s: when.
        offset: the next offset that the replica was to apply.
        topic_id: the topic that its rows came from; None if the replica was not open.
    """

    asked_at_s: float
    offset: int
    topic_id: str | None = None


class FreshnessTracker:
    """Tracks one replica's freshness. Any thread may call anything.

    Attributes:
        fresh_at_s: the latest moment for which the rows are known to hold all that was in the log; None if unknown.
        version: increases after every other change.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.fresh_at_s: float | None = None
        self.version = 0
        self.opened(0)

    def opened(
        self,
        offset: int,
        source: SourceRanges | None = None,
        at_s: float = 0.0,
        source_progress: SourceProgress | None = None,
    ) -> None:
        """Resets everything: the rows start at `offset`. `source_progress` is that of their changelog."""
        with self._lock:
            self._source_progress = source_progress or SourceProgress()
            self._offset = offset
            self._reached = _Reached()
            self._end: tuple[int, float] | None = None
            self._source: SourceRanges = {} if source is None else source
            self.fresh_at_s = None
            self.version += 1
        if source:
            self._see(source, at_s)

    def moved(self, offset: int, source: SourceRanges | None, at_s: float) -> None:
        """The rows hold everything below `offset`. `source`: input ranges of the newest records; None: as before."""
        with self._lock:
            self._offset = offset
            self._reached.at(offset)
            if source is not None:
                self._source = source
            self.fresh_at_s = self._reached.at_s
            self.version += 1
        if source is not None:
            self._see(source, at_s)
        self._tell()

    def request(self, at_s: float, topic_id: str | None = None) -> EndRequest:
        """Call it before asking the broker."""
        return EndRequest(at_s, self._offset, topic_id)

    def saw_end(self, request: EndRequest, end: int) -> None:
        """Takes the broker's answer: the end of what is written, open transactions included.

        An end offset below the replica's position at the time of the request belongs to another log and is ignored.
        """
        if end < request.offset:
            return
        with self._lock:
            self._reached.ask(end, request.asked_at_s, self._offset)
            self._end = (end, request.asked_at_s)
            self.fresh_at_s = self._reached.at_s
            self.version += 1
        self._tell()

    def lost_log(self) -> None:
        """Notes that the log is gone: its end offset is unknown, and pending end offsets are dropped."""
        with self._lock:
            self._reached.forget()
            self._end = None
            self.version += 1
        self._tell()

    def staleness_ms(self, at_s: float) -> int | None:
        """The staleness at a moment, rounded up; 0 if `fresh_at_s` is later than that. None: unknown."""
        fresh_at_s = self.fresh_at_s
        return None if fresh_at_s is None else _age_ms(at_s, fresh_at_s)

    @property
    def end_offset(self) -> int:
        """The last known end offset; 0 if none is known."""
        end = self._end
        return 0 if end is None else end[0]

    def end(self, at_s: float) -> tuple[int, int] | None:
        """The last known end offset and its age in milliseconds; None if none is known."""
        end = self._end
        return None if end is None else (end[0], _age_ms(at_s, end[1]))

    def source(self) -> Position:
        """The source position.

        A batch is certainly complete once a later batch was seen, or once the replica has reached an end offset that
        was requested after the batch was seen anywhere in the store. That end offset includes open transactions. So it
        is exact only if the app writes a batch in one transaction; otherwise the batch's last records may be missing.
        """
        with self._lock:
            whole_at_s, source_progress = self._reached.at_s, self._source_progress
            begun = {topic: {p: start for p, (start, _) in parts.items()} for topic, parts in self._source.items()}
        begun_at = Position(begun)
        return begun_at if whole_at_s is None else begun_at.merged(source_progress.before(whole_at_s))

    def touch(self) -> None:
        """Notes that something else that the replica's answers show has changed."""
        with self._lock:
            self.version += 1

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener`, from any thread, when position or end offset changed; returns a function that ends that."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def leave() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return leave

    def _see(self, source: SourceRanges, at_s: float) -> None:
        for topic, partitions in source.items():
            for partition, (_, end) in partitions.items():
                self._source_progress.see(topic, partition, end, at_s)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


class _Reached:
    """When the latest end offset that has been reached was requested. Guarded by its owner's lock."""

    __slots__ = ("_pending", "at_s")

    def __init__(self) -> None:
        self.at_s: float | None = None
        self._pending: deque[tuple[int, float]] = deque()

    def ask(self, end: int, asked_at_s: float, offset: int) -> None:
        if len(self._pending) == _MAX_PENDING:
            # Far behind: the oldest end offsets are reached first, so the newest one is dropped.
            self._pending.pop()
        self._pending.append((end, asked_at_s))
        self.at(offset)

    def forget(self) -> None:
        self._pending.clear()

    def at(self, offset: int) -> None:
        while self._pending and self._pending[0][0] <= offset:
            asked_at_s = self._pending.popleft()[1]
            self.at_s = asked_at_s if self.at_s is None else max(self.at_s, asked_at_s)


def _age_ms(at_s: float, since_s: float) -> int:
    return max(0, math.ceil((at_s - since_s) * 1000))


_MAX_SIGHTINGS = 128


class SourceProgress:
    """Ends of input ranges and when each was first seen. Shared by a store's replicas. Safe from any thread.

    It is of one changelog: what was seen in a topic is not in the rows of another one, even of the same name.
    A batch need not write to every changelog partition. It is seen in those partitions that it wrote to.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], deque[tuple[int, float]]] = {}

    def see(self, topic: str, partition: int, end: int, at_s: float) -> None:
        """Notes a batch that read a source partition up to `end`, exclusive."""
        with self._lock:
            seen = self._seen.setdefault((topic, partition), deque(maxlen=_MAX_SIGHTINGS))
            if not seen or end > seen[-1][0]:
                seen.append((end, at_s))

    def before(self, at_s: float) -> Position:
        """The ends of the newest batches that were seen by a moment on the monotonic clock."""
        offsets: dict[str, dict[int, int]] = {}
        with self._lock:
            for (topic, partition), seen in self._seen.items():
                ends = [end for end, seen_at_s in seen if seen_at_s <= at_s]
                if ends:
                    offsets.setdefault(topic, {})[partition] = ends[-1]
        return Position(offsets)
