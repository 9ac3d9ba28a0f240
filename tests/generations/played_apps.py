"""Plays an app's processes without Spark: they follow the journal, take leases, and plan and finish batches on disk.

A batch sends the records of its input on through a topic of the generation's own, and a later one takes them up there.
What each generation writes for which record of the input is remembered, so that a test can tell what came twice.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.lease import Lease
from storekeeper.generations.boundary import begin_behind, take_back
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.desired_state import DesiredState, Role, desired_state_of, generation_lease
from storekeeper.generations.journal import Generation, JournalFile

TOPIC = "pos"
OWN = "own-{}"
"""The repartition topic of a generation."""
_MOST_IN_A_BATCH = 5
_PLANS_AT_ONCE = 0.5


@dataclass
class World:
    """An input topic that grows, and what was written for its records: by offset, and by generation and batch.

    Attributes:
        logs: by generation, what is in its repartition topic: offsets of the input.
        sent: by generation and batch, whether that batch's records are there.
        restless: whether each batch sends on what it found in the repartition topic, too.
        outputs: what was written when the input was read.
        late_outputs: what was written when its records came through the repartition topic.
    """

    settings: AppSettings
    rng: random.Random
    clock: ManualClock = field(default_factory=ManualClock)
    end: int = 0
    outputs: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    late_outputs: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    stores: dict[int, set[int]] = field(default_factory=dict)
    logs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    sent: set[tuple[int, int]] = field(default_factory=set)
    restless: bool = False

    def log_ends(self, topics: Collection[str]) -> Position:
        """Where repartition topics end."""
        return Position({topic: {0: len(self.logs[int(topic.removeprefix(OWN.format("")))])} for topic in topics})

    @property
    def journal_file(self) -> JournalFile:
        return JournalFile(self.settings.run_dir, POS.name)

    def checkpoint(self, generation: Generation) -> BatchCheckpoint:
        return BatchCheckpoint(self.settings.in_generation(generation.number).checkpoint_dir(POS.name))

    def seed(self, live: Generation, new: Generation) -> Position:
        """Makes the checkpoint of a generation that begins with what the live one has; where its input begins."""
        of_live = self.checkpoint(live)
        batch, start = of_live.last_committed_batch(), at(of_live.committed_position().offset(TOPIC, 0) or 0)
        assert batch is not None
        empty = Position({OWN.format(new.number): {0: 0}})
        begin_behind(self.checkpoint(new), start.merged(empty), "f7a3")
        return start

    def written_twice(self) -> list[int]:
        """Records of the input whose outputs were written by two batches."""
        return sorted(
            offset
            for written in (self.outputs, self.late_outputs)
            for offset, count in Counter(chain.from_iterable(written.values())).items()
            if count > 1
        )

    def not_written(self) -> list[int]:
        """Records of the input without outputs."""
        whole = set(range(self.end))
        return sorted(
            offset for written in (self.outputs, self.late_outputs) for offset in whole.difference(*written.values())
        )


@dataclass
class PlayedApp:
    """One process. Like Spark, it may plan a batch that it must not begin.

    `crashes` is how often it dies after it has written a part of a batch, and after it has finished one.
    """

    world: World
    role: Role
    crashes: float = 0.0
    _lease: Lease | None = None
    _desired: DesiredState | None = None
    _begun: int = -1
    _found: int = -1
    _limit: int | None = None

    def tick(self) -> None:
        """Does a little: takes up its desired state, or plans, writes or finishes a batch, or ends what it runs."""
        journal = self.world.journal_file.read() or first_journal(POS)
        desired = desired_state_of(journal, self.role)
        if self._lease is not None and (desired != self._desired or (desired and self._is_done(desired))):
            self._end()
        elif self._lease is None and desired is not None and not desired.fulfilled(self._checkpoint(desired)):
            self._begin(desired)
        elif self._lease is not None and desired is not None:
            self._work(desired)

    def stop(self) -> None:
        """Ends between two batches, as at TERM."""
        if self._lease is not None:
            self._end(stopped=True)

    def _begin(self, desired: DesiredState) -> None:
        lease = Lease(
            self.world.settings.lease_file(generation_lease(POS.name, desired.generation.number)),
            clock=self.world.clock,
            wait=lambda _: None,
        )
        lease.acquire(0)
        self._lease, self._desired, self._begun = lease, desired, -1
        checkpoint = self._checkpoint(desired)
        if desired.batch is not None:
            take_back(checkpoint, desired.batch)
        planned = checkpoint.last_planned_batch()
        self._found = -1 if planned is None else planned
        self._limit = desired.last_batch(checkpoint)

    def _is_done(self, desired: DesiredState) -> bool:
        return desired.reached(self._checkpoint(desired)) and not self._owes(desired)

    def _owes(self, desired: DesiredState) -> bool:
        """Whether a batch is under way that may have been begun."""
        checkpoint = self._checkpoint(desired)
        planned, committed = checkpoint.last_planned_batch(), checkpoint.last_committed_batch()
        return planned is not None and planned != committed and planned <= max(self._begun, self._found)

    def _end(self, *, stopped: bool = False) -> None:
        assert self._lease is not None
        assert self._desired is not None
        if self._owes(self._desired) and self._begun >= 0:
            self._finish(self._desired)  # the batch that runs is let finish
        checkpoint = self._checkpoint(self._desired)
        if not stopped:
            take_back(checkpoint, max(self._begun, self._found, 0))
        self._lease.release()
        self._lease = self._desired = None

    def _work(self, desired: DesiredState) -> None:
        checkpoint = self._checkpoint(desired)
        planned, committed = checkpoint.last_planned_batch(), checkpoint.last_committed_batch()
        if planned is None or planned == committed:
            self._plan(desired, 0 if planned is None else planned + 1)
        elif self._begun >= planned:
            self._finish(desired)
            self._may_die()
        elif self._limit is not None and planned > self._limit:
            self._end()  # the batch is refused
        else:
            self._write(desired, planned)
            self._may_die()

    def _plan(self, desired: DesiredState, batch: int) -> None:
        checkpoint = self._checkpoint(desired)
        start = self._start(desired, batch)
        end = min(self.world.end, start + self.world.rng.randint(1, _MOST_IN_A_BATCH))
        own = OWN.format(desired.generation.number)
        own_start, own_end = self._start(desired, batch, own), len(self.world.logs[desired.generation.number])
        if (end, own_end) == (start, own_start):
            return
        checkpoint.plan(
            batch, Position({own: {0: own_start}, TOPIC: {0: start}}), Position({own: {0: own_end}, TOPIC: {0: end}})
        )

    def _write(self, desired: DesiredState, batch: int) -> None:
        generation, number = desired.generation, desired.generation.number
        self._begun = batch
        checkpoint = self._checkpoint(desired)
        own, end = OWN.format(number), checkpoint.end_position(batch)
        offsets = set(range(self._start(desired, batch), end.offset(TOPIC, 0) or 0))
        arrived = self.world.logs[number][self._start(desired, batch, own) : end.offset(own, 0) or 0]
        if generation.writes_outputs(batch):
            self.world.outputs[number, batch] = offsets
            self.world.late_outputs[number, batch] = set(arrived)
        if (number, batch) not in self.world.sent:
            self.world.sent.add((number, batch))
            self.world.logs[number] += [*sorted(offsets), *(arrived if self.world.restless else ())]
        seed = set(range(generation.start.offset(TOPIC, 0) or 0))
        self.world.stores.setdefault(number, set()).update(offsets | seed)

    def _may_die(self) -> None:
        if self._lease is not None and self.world.rng.random() < self.crashes:
            self._lease.release()
            self._lease = self._desired = None

    def _finish(self, desired: DesiredState) -> None:
        """Finishes the batch that runs. The next one may be planned before anybody looks."""
        checkpoint = self._checkpoint(desired)
        batch = checkpoint.last_planned_batch()
        assert batch is not None
        checkpoint.commit(batch)
        if self.world.rng.random() < _PLANS_AT_ONCE:
            self._plan(desired, batch + 1)

    def _start(self, desired: DesiredState, batch: int, topic: str = TOPIC) -> int:
        if batch == 0:
            return 0
        return self._checkpoint(desired).end_position(batch - 1).offset(topic, 0) or 0

    def _checkpoint(self, desired: DesiredState) -> BatchCheckpoint:
        return self.world.checkpoint(desired.generation)


def world_in(path: Path, seed: int) -> World:
    """A world of its own."""
    return World(AppSettings(run_dir=path), random.Random(seed))


def at(offset: int) -> Position:
    """A place of the input."""
    return Position({TOPIC: {0: offset}})
