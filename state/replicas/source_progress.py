"""Which batches of a store's input were seen in its changelog, and when: shared by the store's replicas of one node.

A batch need not write to every changelog partition. It is seen in those partitions that it wrote to.
"""

from __future__ import annotations

import threading
from collections import deque

from state.changelog.position import Position

_MAX_SIGHTINGS = 128


class SourceProgress:
    """Ends of input ranges and when each was first seen. Safe from any thread."""

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
        found: dict[str, dict[int, int]] = {}
        with self._lock:
            for (topic, partition), seen in self._seen.items():
                ends = [end for end, seen_at_s in seen if seen_at_s <= at_s]
                if ends:
                    found.setdefault(topic, {})[partition] = ends[-1]
        return Position(found)
