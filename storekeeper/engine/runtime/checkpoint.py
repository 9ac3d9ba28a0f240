"""Reading the progress that Spark keeps in a query's checkpoint folder. Free of Spark.

metadata        {"id": "<the query's id>"}
offsets/<n>     planned batch n: `v1`, a line of settings, then a line per source with its end offsets
commits/<n>     exists once batch n is finished
sources/<s>/0   the start offsets of the first batch; for Kafka, with a leading zero byte
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import orjson

from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.position import Position
from storekeeper.errors import SerializationError
from storekeeper.locations import Location, entries

NO_OFFSETS = "-"
"""What Spark writes for a source that has no offsets yet."""


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """One query's checkpoint at `path`, which need not exist yet.

    Methods raise `UnusableCheckpointError` for a file that isn't in Spark's format, and `TablesUnreachableError` if
    its store does not answer.
    """

    path: Location

    def query_id(self) -> str | None:
        """The id that Spark gave the query at its very first start; None before that."""
        file = self.path / "metadata"
        try:
            return str(orjson.loads(file.read_bytes())["id"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(file) from error

    def last_planned_batch(self) -> int | None:
        """The newest batch whose input is planned; it may be unfinished. None before the first."""
        return _newest(self.path / "offsets")

    def plans(self, batch_id: int) -> bool:
        """Whether it still has the plan of a batch: Spark deletes those of old ones."""
        return any(entry.name == str(batch_id) for entry in entries(self.path / "offsets"))

    def last_committed_batch(self) -> int | None:
        """The newest committed batch. None before the first."""
        return _newest(self.path / "commits")

    def end_position(self, batch_id: int) -> Position:
        """The end of a planned batch's input from Kafka, exclusive."""
        file = self.path / "offsets" / str(batch_id)
        try:
            version, _, *sources = file.read_bytes().decode().splitlines()
        except (OSError, ValueError) as error:
            raise self._damaged(file) from error
        if version != "v1":
            raise self._damaged(file)
        return self._merged(file, sources)

    def initial_position(self) -> Position:
        """The start of batch 0's input; empty before the first start."""
        merged = Position()
        for source in entries(self.path / "sources"):
            file = source / "0"
            with suppress(FileNotFoundError):  # Spark makes the folder first
                # Spark puts a zero byte in front, for the sake of its oldest versions.
                _, _, offsets = file.read_bytes().decode().lstrip("\0").partition("\n")
                merged = merged.merged(self._merged(file, [offsets]))
        return merged

    def committed_position(self) -> Position:
        """The committed input position: the end of the last committed batch, or the start of the first batch."""
        batch_id = self.last_committed_batch()
        return self.initial_position() if batch_id is None else self.end_position(batch_id)

    def source_ranges(self, batch_id: int) -> SourceRanges:
        """The input of a planned batch: per topic and partition the first offset and the end, exclusive."""
        end = self.end_position(batch_id)
        start = self.initial_position() if batch_id == 0 else self.end_position(batch_id - 1)
        ranges: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, partition, offset in end:
            # A partition that the previous batch didn't have is new, and is read from its beginning.
            ranges.setdefault(topic, {})[partition] = (start.offset(topic, partition) or 0, offset)
        return ranges

    def _merged(self, file: Location, sources: list[str]) -> Position:
        merged = Position()
        try:
            for source in sources:
                if source != NO_OFFSETS:
                    merged = merged.merged(Position.from_json(source))
        except SerializationError as error:
            raise self._damaged(file) from error
        return merged

    def _damaged(self, file: Location) -> UnusableCheckpointError:
        msg = (
            f"{file} is not what Spark writes there, so this checkpoint can't be continued: "
            "put the folder back from a copy, or start a new generation (STOREKEEPER_GENERATION)"
        )
        return UnusableCheckpointError(msg)


def _newest(folder: Location) -> int | None:
    return max((int(entry.name) for entry in entries(folder) if entry.name.isdecimal()), default=None)
