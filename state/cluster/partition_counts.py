"""The partition count of each store: asked of the broker until all are known, and at intervals after that.

The count that a changelog had when this node first saw it is kept: its rows are partitioned by that count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from state.changelog.reader import ChangelogReader, TopicFacts
from state.errors import ChangelogError
from state.whole_files import write_whole

log = structlog.get_logger(__name__)

FILE_NAME = "partitions.json"


@dataclass(frozen=True, slots=True)
class Counted:
    """The partition count that queries use for the topic with this id."""

    partitions: int
    topic_id: str


class FirstCounts:
    """The numbers by topic id, kept in a file, so that they hold over restarts. Not thread-safe.

    If a changelog gets more partitions, its rows stay where they are, and its app refuses to go on writing. With the
    new number, queries would look for most keys in the wrong partition and find no row.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        self._counts = self._read()

    def of(self, facts: TopicFacts) -> Counted:
        """The number to use for a topic, given its current description from the broker.

        Raises:
            OSError: the file can't be written; the number of a new topic isn't kept then.
        """
        first = self._counts.get(facts.topic_id)
        if first is None:
            first = self._counts[facts.topic_id] = facts.partitions
            self._write()
        if first != facts.partitions:
            log.warning("changelog_has_other_partitions", topic=facts.topic, now=facts.partitions, going_by=first)
        return Counted(first, facts.topic_id)

    def _read(self) -> dict[str, int]:
        try:
            found = orjson.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError:
            log.warning("partition_counts_unreadable", path=str(self._file))
            return {}
        return {str(name): count for name, count in found.items() if isinstance(count, int) and count > 0}

    def _write(self) -> None:
        write_whole(self._file, orjson.dumps(self._counts))


_RETRY_S = 1.0
_ASK_AGAIN_AFTER = 10


class PartitionCounts:
    """One thread that asks. It notices a topic that appears later or is recreated; known counts are never dropped.

    `folder` is the node's own; the first count of each topic is kept there.
    """

    def __init__(
        self, topics: Callable[[], Mapping[str, str]], reader: Callable[[], ChangelogReader], folder: Path
    ) -> None:
        self._topics = topics
        self._make_reader = reader
        self._first = FirstCounts(folder)
        self._counts: Mapping[str, Counted] = {}
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="partition-counts", daemon=True)

    @property
    def known(self) -> Mapping[str, Counted]:
        """Number of partitions by store, for stores whose topics exist. The mapping never changes: read it again."""
        return self._counts

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def ask_soon(self) -> None:
        """Asks within a second: a topic was recreated, maybe with another number of partitions."""
        self._wanted.set()

    def stop(self) -> None:
        """Ends after the current read. Safe to call twice, or without `start`."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def ask_once(self, reader: ChangelogReader) -> None:
        """Asks for every topic."""
        for store, topic in self._topics().items():
            if self._stop.is_set():
                return
            try:
                count = self._first.of(reader.facts(topic))
            except ChangelogError as error:
                if store not in self._counts:
                    log.warning("node_waits_for_changelog", store=store, error=str(error))
                continue
            if self._counts.get(store) != count:
                log.info("partitions_known", store=store, partitions=count.partitions, topic_id=count.topic_id)
                self._counts = {**self._counts, store: count}

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._keep_asking()
            except Exception:
                # If the node stopped asking, it would never hold a store whose topic is created later.
                log.exception("partition_counts_interrupted")
                self._stop.wait(_RETRY_S)

    def _keep_asking(self) -> None:
        reader = self._make_reader()
        asked = 0
        try:
            while not self._stop.is_set():
                known = self._counts.keys() >= self._topics().keys()
                if self._wanted.is_set() or not known or asked % _ASK_AGAIN_AFTER == 0:
                    self._wanted.clear()
                    self.ask_once(reader)
                asked += 1
                self._stop.wait(_RETRY_S)
        finally:
            reader.close()
