"""Repartition topics keep records only until they are processed: processed records are deleted regularly."""

from __future__ import annotations

import time
from collections.abc import Collection

import structlog

from spark_apps.runtime.topics import Topics
from state.changelog.errors import BrokerUnavailableError
from state.changelog.position import Position

PURGE_INTERVAL_S = 30.0
"""As in Kafka Streams."""

_log = structlog.get_logger(__name__)


class RepartitionPurge:
    """Deletes the records that an app has processed from its own repartition topics. Not thread-safe."""

    def __init__(self, topics: Topics, names: Collection[str]) -> None:
        self._topics = topics
        self._names = frozenset(names)
        self._last_s = time.monotonic()

    def __call__(self, processed: Position) -> None:
        """Deletes the records below a committed position, at most once per `PURGE_INTERVAL_S`.

        If the broker doesn't answer, a later call tries again.
        """
        if not self._names or time.monotonic() - self._last_s < PURGE_INTERVAL_S:
            return
        self._last_s = time.monotonic()
        below = Position({topic: ends for topic, ends in processed.offsets.items() if topic in self._names})
        try:
            self._topics.delete_records(below)
        except BrokerUnavailableError as error:
            _log.warning("repartition_topics_not_purged", why=str(error))
