"""The progress of an app's batches, in a folder.

metadata      {"id": "<the query's id>"}
beginning     the start offsets of the first batch
offsets/<n>   planned batch n: {"at_ms": <its time>, "start": <its first offsets>, "end": <its end offsets>}
commits/<n>   exists once batch n is finished

Files appear whole, and are durable before the next step.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

import orjson

from storekeeper.apps.errors import START_ANEW, UnusableCheckpointError
from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock, SystemClock
from storekeeper.errors import SerializationError
from storekeeper.locations import Location, entries, write_in_one_step

_LOOKS_MS = 200
_GENERATION = re.compile(r"gen-\d+")


class _Plan(NamedTuple):
    at_ms: int
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class BatchCheckpoint:
    """One query's checkpoint at `path`, which need not exist yet.

    Methods raise `UnusableCheckpointError` for a file that isn't in this format, and `TablesUnreachableError` if
    its store does not answer.
    """

    path: Location

    def query_id(self) -> str | None:
        """The id that the query got at its very first start; None before that."""
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
        """Whether it still has the plan of a batch: those of old ones are deleted."""
        return any(entry.name == str(batch_id) for entry in entries(self.path / "offsets"))

    def last_committed_batch(self) -> int | None:
        """The newest committed batch. None before the first."""
        return _newest(self.path / "commits")

    def start_position(self, batch_id: int) -> Position:
        """The start of a planned batch's input: the end of the one before, and where new partitions began."""
        return self._plan(batch_id).start

    def end_position(self, batch_id: int) -> Position:
        """The end of a planned batch's input from Kafka, exclusive."""
        return self._plan(batch_id).end

    def planned_at_ms(self, batch_id: int) -> int:
        """The time of a planned batch: when it was planned, and later than the batch before it."""
        return self._plan(batch_id).at_ms

    def initial_position(self) -> Position:
        """Where the input began at the first start; empty before that."""
        file = self.path / "beginning"
        with suppress(FileNotFoundError):
            try:
                return Position.from_json(file.read_bytes())
            except SerializationError as error:
                raise self._damaged(file) from error
        return Position()

    def begin(self, query_id: str | None = None) -> None:
        """Gives the query its id, unless it has one."""
        if self.query_id() is None:
            self._write("metadata", orjson.dumps({"id": query_id or str(uuid4())}))

    def begin_at(self, start: Position) -> None:
        """Writes where the input begins at the first start."""
        self._write("beginning", start.to_json())

    def plan(self, batch_id: int, start: Position, end: Position, at_ms: int | None = None) -> None:
        """Writes the start and the end of the next batch's input, and its time, by default now.

        `start` has each partition of `end`: a log need not begin at 0, and where it began is not known later.
        """
        if at_ms is None:
            before = self.planned_at_ms(batch_id - 1) if self.plans(batch_id - 1) else 0
            at_ms = max(SystemClock().now_ms(), before + 1)
        plan = b'{"at_ms":%d,"start":%b,"end":%b}' % (at_ms, start.to_json(), end.to_json())
        self._write(f"offsets/{batch_id}", plan)

    def commit(self, batch_id: int, *, kept: int | None = None) -> None:
        """Notes that a batch is finished; `kept` is how many of those before it keep their files."""
        self._write(f"commits/{batch_id}", b"{}")
        if kept is not None and batch_id >= kept:
            for folder in ("offsets", "commits"):
                (self.path / folder / str(batch_id - kept)).unlink(missing_ok=True)

    def committed_position(self) -> Position:
        """The committed input position: the end of the last committed batch, or where the input began."""
        batch_id = self.last_committed_batch()
        return self.initial_position() if batch_id is None else self.end_position(batch_id)

    def source_ranges(self, batch_id: int) -> SourceRanges:
        """The input of a planned batch: per topic and partition the first offset and the end, exclusive."""
        plan = self._plan(batch_id)
        ranges: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, partition, offset in plan.end:
            ranges.setdefault(topic, {})[partition] = (plan.start.offsets[topic][partition], offset)
        return ranges

    def _plan(self, batch_id: int) -> _Plan:
        file = self.path / "offsets" / str(batch_id)
        try:
            plan = orjson.loads(file.read_bytes())
            start, end = (Position.from_json(orjson.dumps(plan[name])) for name in ("start", "end"))
            if not all(start.offset(topic, partition) is not None for topic, partition, _ in end):
                raise self._damaged(file)
            return _Plan(int(plan["at_ms"]), start, end)
        except (OSError, ValueError, TypeError, KeyError, SerializationError) as error:
            raise self._damaged(file) from error

    def _write(self, name: str, data: bytes) -> None:
        write_in_one_step(self.path / name, data, durable=True)

    def _damaged(self, file: Location) -> UnusableCheckpointError:
        return UnusableCheckpointError(
            f"{file} is not what was written there, so this checkpoint can't be continued: "
            f"put the folder back from a copy, or {START_ANEW}"
        )


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The last batch that an app finished, the end of its input, and its time."""

    generation: int
    batch_id: int
    source: Position
    at_ms: int

    @classmethod
    def of(cls, checkpoint: BatchCheckpoint, generation: int) -> CommittedBatch | None:
        """The batch of a checkpoint; None before the first is finished."""
        batch_id = checkpoint.last_committed_batch()
        if batch_id is None:
            return None
        return cls(generation, batch_id, checkpoint.end_position(batch_id), checkpoint.planned_at_ms(batch_id))


def planned_batches(checkpoint: BatchCheckpoint) -> dict[int, int]:
    """The newest planned batch of each generation of an app, by the checkpoints beside this one."""
    folders = [path for path in entries(checkpoint.path.parent) if _GENERATION.fullmatch(path.name)]
    checkpoints = {int(path.name.removeprefix("gen-")): BatchCheckpoint(path) for path in folders}
    return {
        generation: planned
        for generation, one in checkpoints.items()
        if (planned := one.last_planned_batch()) is not None
    }


@dataclass
class TimesBesideBatches:
    """The times of records that no batch writes, such as those of clean-ups.

    Called, it gives the time. While a batch is under way it is that of the batch: its records may follow in the log,
    and what comes later there must not have an earlier time.

    Attributes:
        checkpoint: that of the app's batches.
        clock: the clock.
    """

    checkpoint: BatchCheckpoint
    clock: Clock
    _looked_ms: int = -_LOOKS_MS
    _at_ms: int = 0

    def __call__(self) -> int:
        """The time. It lags by less than a fifth of a second: then it looks for a batch again."""
        now_ms = self.clock.now_ms()
        if not 0 <= now_ms - self._looked_ms < _LOOKS_MS:
            planned, committed = self.checkpoint.last_planned_batch(), self.checkpoint.last_committed_batch()
            self._looked_ms = self._at_ms = now_ms
            if planned is not None and planned != committed:
                self._at_ms = min(now_ms, self.checkpoint.planned_at_ms(planned))
        return self._at_ms


def _newest(folder: Location) -> int | None:
    return max((int(entry.name) for entry in entries(folder) if entry.name.isdecimal()), default=None)
