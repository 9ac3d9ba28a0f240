"""The partition count of each changelog when this node first saw it: its rows are partitioned by that count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from state.changelog.log_reader import TopicFacts
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
