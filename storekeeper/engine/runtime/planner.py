"""Plans the batches of an app: which offsets of its topics each one reads."""

from __future__ import annotations

import time
from collections.abc import Sequence

from storekeeper.apps.errors import START_ANEW, LostInputError
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.batch_ends import BatchEnds, Offsets, TopicGroup
from storekeeper.engine.runtime.topics import Topics, position_of

_PATIENCE_S = 30.0
_PAUSE_S = 0.2


class Planner:
    """Plans from what the broker reports. Not thread-safe."""

    def __init__(
        self, topics: Topics, groups: Sequence[TopicGroup], *, most: int, unlimited: Sequence[str] = ()
    ) -> None:
        """Asks nothing yet. A batch has at most `most` records, beside those of `unlimited` topics, which each batch
        reads to their ends.
        """
        self._broker, self._ends = topics, BatchEnds(groups, most, topics.first_offsets_at, topics.times)
        self._topics = [*(topic for group in groups for topic in group.topics), *unlimited]
        self._failing_since_s: float | None = None

    @property
    def has_news(self) -> bool:
        """Whether the broker has answered when it was asked last."""
        return self._failing_since_s is None

    def first(self) -> Position:
        """Where the first batch begins: at the topics' beginnings.

        Raises:
            BrokerUnavailableError: the broker doesn't answer, or doesn't know a topic that the app has just made.
        """
        while True:
            try:
                return self._broker.bounds(self._topics).start
            except BrokerUnavailableError:
                if not self._waits():
                    raise

    def next(self, position: Position) -> tuple[Position, Position]:
        """Where a batch begins and ends that reads on at `position`; twice `position` if nothing waits.

        A partition that `position` lacks is new: it begins at the first offset that it has now, and there is a batch
        even if nothing waits in it. So the plan keeps where it began.

        Raises:
            LostInputError: a topic ends in front of where the last batch ended.
            BrokerUnavailableError: the broker doesn't answer for long.
        """
        try:
            start, waiting = self._bounds(_by_place(position))
            end = self._ends(start, waiting)
        except (BrokerUnavailableError, LostInputError):  # a broker that begins anew may not know its newest records
            if not self._waits():
                raise
            return position, position
        self._failing_since_s = None
        return position_of(start), position_of(end)

    def _waits(self) -> bool:
        """Waits a moment, unless it has already waited for long."""
        now_s = time.monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if now_s - self._failing_since_s > _PATIENCE_S:
            return False
        time.sleep(_PAUSE_S)
        return True

    def _bounds(self, known: Offsets) -> tuple[Offsets, Offsets]:
        """The start of a batch, and what there is: `known`, and new partitions from their first offsets."""
        start, end = known, _by_place(self._broker.end(self._topics))
        grown = {topic for topic, partition in end if (topic, partition) not in known}
        if grown:
            # Both at once: a log may be cut behind the end that was reported before.
            bounds = self._broker.bounds(sorted(grown))
            start, end = {**_by_place(bounds.start), **known}, {**end, **_by_place(bounds.end)}
        end = {place: end.get(place, offset) for place, offset in start.items()}
        for (topic, partition), offset in start.items():
            found = end[topic, partition]
            if found < offset:
                raise LostInputError(
                    f"topic {topic} ends at {found} in partition {partition}, and was read to {offset}: Kafka has lost "
                    f"records. Put its newer data back, or {START_ANEW}"
                )
        return start, end


def _by_place(position: Position) -> Offsets:
    return {(topic, partition): offset for topic, partition, offset in position}
