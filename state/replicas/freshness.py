"""How fresh a replica is: what is known of its changelog's end, and when it was known to have applied all of it.

The log's end is asked for again and again. A question that was asked at a moment T and answered with the end E tells:
once the replica has applied everything below E, it holds all that was in the log at T. So:

- **staleness** is the time since the last such T: no record that was in the log before then is missing. It is an upper
  bound. Under constant traffic it stays about the time between two questions plus the way of a record, as each end that
  was told is soon passed. While the broker is away nothing is told, so it grows, whatever the replica holds.
- **offset lag** is the distance to the end told last: at most so many records of that moment are missing.
- the **source position** says which records of the app's input are surely in the rows.

The log is that of a topic, not of a name: an end counts only if the broker says after it that the topic is still the
one that the rows come from. So a topic that was deleted, or deleted and made anew, proves nothing any more: staleness
grows, and the lag is unknown.

Limits: "in the log" means below its last stable offset, so what a transaction has not committed is not missing. The
bound holds for the moment that it was asked for; a process that is stopped between answering and sending adds that
time.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from state.changelog.headers import SourceRanges
from state.changelog.position import Position
from state.changelog.restore import Role
from state.replicas.sightings import SourceSightings

_MAX_PENDING = 64


@dataclass(frozen=True, slots=True)
class ReplicaFreshness:
    """One look at how fresh a replica is.

    Attributes:
        topic, partition: its changelog partition.
        role: whether queries prefer it.
        caught_up: whether it has reached the end of the log once since it was opened.
        offset: next changelog offset to apply; all below it is in the rows.
        offset_lag: at most so many records were missing when the end was told last; None while it is unknown.
        end_age_ms: how long ago that was asked, rounded up; None while the end is unknown.
        staleness_ms: an upper bound, rounded up: every record that was in the log before is in the rows. None: unknown.
        source: next offsets of the app's input: every change that comes from records below is in the rows.
    """

    topic: str
    partition: int
    role: Role
    caught_up: bool
    offset: int
    offset_lag: int | None
    end_age_ms: int | None
    staleness_ms: int | None
    source: Position = field(default_factory=Position)


@dataclass(frozen=True, slots=True)
class EndQuestion:
    """A question for a log's end, as it was asked: when, on the monotonic clock, and where the replica was then.

    Attributes:
        asked_at_s: when.
        offset: the next offset that the replica was to apply.
        topic_id: the topic that its rows came from; None if the replica was not open.
    """

    asked_at_s: float
    offset: int
    topic_id: str | None = None


class FreshnessTracker:
    """What is known of one replica's freshness. Any thread may call anything.

    Attributes:
        fresh_at_s: the last moment of which it is known that all that was in the log is in the rows; None if none is.
        version: moves after anything else has.
    """

    def __init__(self, sightings: SourceSightings | None = None) -> None:
        self._lock = threading.Lock()
        self._sightings = sightings or SourceSightings()
        self._listeners: list[Callable[[], None]] = []
        self.fresh_at_s: float | None = None
        self.version = 0
        self.opened(0)

    def opened(self, offset: int, source: SourceRanges | None = None, at_s: float = 0.0) -> None:
        """Forgets everything: the rows begin anew at `offset`."""
        with self._lock:
            self._offset = offset
            self._stable = _Reached()
            self._written = _Reached()
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
            self._stable.at(offset)
            self._written.at(offset)
            if source is not None:
                self._source = source
            self.fresh_at_s = self._stable.at_s
            self.version += 1
        if source is not None:
            self._see(source, at_s)
        self._tell()

    def question(self, at_s: float, topic_id: str | None = None) -> EndQuestion:
        """To be made before the broker is asked."""
        return EndQuestion(at_s, self._offset, topic_id)

    def saw_end(self, question: EndQuestion, stable_end: int, written_end: int) -> None:
        """The broker's answer: the last stable offset, and the end of what is written but maybe not committed.

        An end below where the replica was when it was asked belongs to another log, and proves nothing.
        """
        if stable_end < question.offset:
            return
        with self._lock:
            self._stable.ask(stable_end, question.asked_at_s, self._offset)
            self._written.ask(written_end, question.asked_at_s, self._offset)
            self._end = (stable_end, question.asked_at_s)
            self.fresh_at_s = self._stable.at_s
            self.version += 1
        self._tell()

    def lost_log(self) -> None:
        """The log is gone: its end is unknown, and no question that is under way proves anything."""
        with self._lock:
            self._stable.forget()
            self._written.forget()
            self._end = None
            self.version += 1
        self._tell()

    def staleness_ms(self, at_s: float) -> int | None:
        """The staleness at a moment, rounded up; 0 if it was known to be whole later than that. None: unknown."""
        fresh_at_s = self.fresh_at_s
        return None if fresh_at_s is None else _age_ms(at_s, fresh_at_s)

    @property
    def end_offset(self) -> int:
        """The end of the log as told last; 0 if it was not."""
        end = self._end
        return 0 if end is None else end[0]

    def end(self, at_s: float) -> tuple[int, int] | None:
        """The end of the log as told last, and its age in milliseconds."""
        end = self._end
        return None if end is None else (end[0], _age_ms(at_s, end[1]))

    def source(self) -> Position:
        """The source position.

        A batch that was seen is surely whole once a later one was, or once an end of the log was passed that was asked
        for after the batch was seen anywhere in the store. That end counts transactions that are still open, so an app
        must write a batch in one of them for this to be exact; otherwise it may miss what the app writes last.
        """
        with self._lock:
            whole_at_s = self._written.at_s
            begun = {topic: {p: start for p, (start, _) in parts.items()} for topic, parts in self._source.items()}
        found = Position(begun)
        return found if whole_at_s is None else found.merged(self._sightings.before(whole_at_s))

    def touch(self) -> None:
        """Something else about the replica has changed that its answers tell."""
        with self._lock:
            self.version += 1

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener`, from any thread, whenever something has changed; returns what ends that."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def leave() -> None:
            with self._lock:
                self._listeners = [found for found in self._listeners if found is not listener]

        return leave

    def _see(self, source: SourceRanges, at_s: float) -> None:
        for topic, partitions in source.items():
            for partition, (_, end) in partitions.items():
                self._sightings.see(topic, partition, end, at_s)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


class _Reached:
    """The latest moment at which a log was asked whose end has been reached since. Guarded by its owner's lock."""

    __slots__ = ("_pending", "at_s")

    def __init__(self) -> None:
        self.at_s: float | None = None
        self._pending: deque[tuple[int, float]] = deque()

    def ask(self, end: int, asked_at_s: float, offset: int) -> None:
        if len(self._pending) == _MAX_PENDING:
            # Far behind: the oldest ends are reached first, so the newest gives way.
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
