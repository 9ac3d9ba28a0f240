"""The journal of an app's generations, in one file: `generations/<app>.json` in the run directory.

Every step records what it did before the next begins, so that work continues from there after a crash. A
generation that the journal doesn't name has no seed: it is the app as it starts by itself.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson

from storekeeper.changelog.position import Position
from storekeeper.errors import InvalidArgumentError
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError
from storekeeper.locations import Location, write_in_one_step

FIRST_GENERATION = 1
BEGINNING = "beginning"
"""The `since` of a backfill that reads the whole input."""
TABLES = "tables"
"""The `since` of a generation that begins with the tables' rows, as the changelogs are lost."""


class GenerationState(StrEnum):
    """The state of a generation."""

    PLANNED = "PLANNED"
    """Written down; nothing else exists."""
    SEEDED = "SEEDED"
    """Its changelogs and its checkpoint are complete, up to where its input begins."""
    STARTED = "STARTED"
    """Nodes prepare it. It runs beside the live one, and writes only its own changelogs."""
    VERIFIED = "VERIFIED"
    """It had the same content as the live one at the same input position."""
    LIVE = "LIVE"
    """Readers read it."""
    STANDBY = "STANDBY"
    """It was live and runs on, so that a roll-back loses nothing."""
    RETIRED = "RETIRED"
    """Stopped for good; its topic and checkpoint may be deleted."""


class TransferPhase(StrEnum):
    """How far a hand-over from one generation to another has come."""

    BEGUN = "BEGUN"
    """The successor is being paused."""
    WAITING = "WAITING"
    """The successor is paused; the predecessor runs until it is as far, and is then paused."""
    ALIGNING = "ALIGNING"
    """Both run to the same input position, with nothing left in repartition topics, and are compared."""
    ALIGNED = "ALIGNED"
    """They have the same content, and it is decided which of them writes which batch's outputs; readers switch next."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A hand-over under way. The batches are known from ALIGNING on: both end at input position `end`.

    In WAITING, `end` is where the target has paused. With `compares`, their contents must be the same; a roll-back
    doesn't compare.
    """

    source: int
    target: int
    phase: TransferPhase = TransferPhase.BEGUN
    end: Position = field(default_factory=Position)
    source_batch: int | None = None
    target_batch: int | None = None
    compares: bool = True


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of an app's state.

    Attributes:
        number: from 1.
        state: its state.
        topics: the changelog of each store of its topology that has one.
        origin: the generation that was live when it was planned; None for the first.
        migrations: names of all migrations from version 1 to its rows' version, in order.
        partitions: of each of its changelogs; None leaves it to the topology.
        since: from where a backfill reads the input: `beginning`, or a time as ISO 8601. `tables`: it goes on from the
            tables. None: it is seeded from its origin.
        seed_rows: how many rows its changelogs began with.
        start: where its input begins: the end of what the seed holds.
        outputs: ranges of its batches (first and last, both inclusive; None is open) whose outputs other than the
            changelogs it writes. The ranges of all generations together cover the input without gap or overlap.
    """

    number: int
    state: GenerationState
    topics: Mapping[str, str]
    origin: int | None = None
    migrations: tuple[str, ...] = ()
    partitions: int | None = None
    since: str | None = None
    seed_rows: int = 0
    start: Position = field(default_factory=Position)
    outputs: tuple[tuple[int, int | None], ...] = ()

    def writes_outputs(self, batch_id: int) -> bool:
        """Whether this generation writes that batch's outputs."""
        return any(first <= batch_id and (last is None or batch_id <= last) for first, last in self.outputs)

    @property
    def live_from(self) -> int:
        """Its first batch since which it is live without a break; of one that is not live, when it last was."""
        return self.outputs[-1][0] if self.outputs else 0

    def mute_after(self, batch_id: int) -> Self:
        """The generation whose outputs end with that batch."""
        kept = tuple((first, batch_id if last is None else last) for first, last in self.outputs)
        return replace(self, outputs=tuple(span for span in kept if span[0] <= span[1]))

    def unmute_after(self, batch_id: int) -> Self:
        """The generation whose outputs go on after that batch."""
        if self.outputs and self.outputs[-1][1] == batch_id:
            return replace(self, outputs=(*self.outputs[:-1], (self.outputs[-1][0], None)))
        return replace(self, outputs=(*self.outputs, (batch_id + 1, None)))


@dataclass(frozen=True, slots=True)
class Journal:
    """All generations of an app. `live` is the one that readers read."""

    app: str
    live: int
    generations: Mapping[int, Generation]
    transfer: Transfer | None = None

    @classmethod
    def first(cls, app: str, topics: Mapping[str, str]) -> Self:
        """The journal of an app that has never changed. `topics`: changelog by store."""
        first = Generation(FIRST_GENERATION, GenerationState.LIVE, topics, outputs=((0, None),))
        return cls(app, FIRST_GENERATION, {FIRST_GENERATION: first})

    def generation(self, number: int) -> Generation:
        """One of the generations.

        Raises:
            GenerationRefusedError: there is none of that number.
        """
        if number not in self.generations:
            known = ", ".join(map(str, sorted(self.generations)))
            msg = f"{self.app} has no generation {number}: it has {known} (`generation seed` makes the next one)"
            raise GenerationRefusedError(msg)
        return self.generations[number]

    @property
    def live_generation(self) -> Generation:
        """The one that readers read."""
        return self.generation(self.live)

    @property
    def candidate(self) -> Generation | None:
        """The generation that is on its way to become live; None if there is none."""
        on_their_way = (GenerationState.PLANNED, GenerationState.SEEDED, GenerationState.STARTED)
        waiting = [g for g in self.generations.values() if g.state in {*on_their_way, GenerationState.VERIFIED}]
        return waiting[0] if waiting else None

    @property
    def standby(self) -> Generation | None:
        """The generation that a roll-back goes to; None if there is none."""
        return next((g for g in self.generations.values() if g.state is GenerationState.STANDBY), None)

    @property
    def other(self) -> Generation | None:
        """The candidate, or else the standby; None if there is neither."""
        return self.candidate or self.standby

    def updated(self, *generations: Generation, **changes: Any) -> Journal:
        """The journal with these generations added or replaced by number, and other fields changed."""
        return replace(self, generations={**self.generations, **{g.number: g for g in generations}}, **changes)

    def to_json(self) -> bytes:
        """The journal as JSON."""
        return orjson.dumps(self, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Reads the JSON of `to_json`.

        Raises:
            GenerationRefusedError: the JSON is not a journal.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidArgumentError) as error:
            raise GenerationRefusedError("the journal of generations is damaged: put it back from a copy") from error


class JournalFile:
    """The journal of one app, in the folder of durable files. Reading needs no lock; a change needs `locked`."""

    def __init__(self, durable: Location, app: str) -> None:
        self._path = durable / "generations" / f"{app}.json"

    @property
    def exists(self) -> bool:
        """Whether the file exists, even if it is damaged."""
        return self._path.exists()

    def read(self) -> Journal | None:
        """The journal; None if the app has never changed."""
        try:
            return Journal.from_json(self._path.read_bytes())
        except FileNotFoundError:
            return None

    def write(self, journal: Journal) -> None:
        """Replaces the journal, atomically and durably."""
        write_in_one_step(self._path, journal.to_json(), durable=True)

    @contextmanager
    def locked(self, run_dir: Path) -> Iterator[None]:
        """Held while a step is taken. The lock is a file of the run directory: stores have none.

        Raises:
            GenerationPendingError: another process is taking a step.
        """
        lock = run_dir / "generations" / f"{self._path.stem}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                msg = "another process is changing the generations: let it end, then look at `status`"
                raise GenerationPendingError(msg) from None
            yield
