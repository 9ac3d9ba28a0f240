"""An erasure whose changelog, cleaner and copies a test plays; its tables are real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock
from storekeeper.erasure.changelog import Place
from storekeeper.erasure.erasure import NOT_SEARCHED, Erasure
from storekeeper.erasure.folder import ErasureFolder, ErasurePlan, Noted
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.erasure.search import Searched
from storekeeper.erasure.tables import ErasedTables
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.delta_log import VerifiedVersion
from storekeeper.snapshots.proof import check_proven
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshot_tables import sealed_at
from tests.snapshots.played_log import PlayedLog, PlayedStore, batch_of

ID = "20260131T120000000Z"
ALICE, BOB = "alice-4836051607", "bob-4836051608"
BEGUN_MS = 1_760_000_000_000
LAG_MS, RETENTION_MS = 60_000, 3_600_000
YOURS = ("pos",)


@dataclass
class PlayedErasedLog:
    """Kafka's cleaner runs in `compact`, on what is old enough."""

    log: PlayedLog
    clock: ManualClock
    config: dict[str, str | None] = field(default_factory=lambda: {"segment.ms": None})
    written_at_ms: dict[tuple[int, int], int] = field(default_factory=dict)

    def delete(self, keys: ErasedKeys, erasure_id: str) -> int:
        del erasure_id
        newest = {record.key: record for at in self.log.partitions for record in self.log.scan(at, 0, 1 << 30)}
        rows = [key for key, record in newest.items() if keys.holds(key) and record.value is not None]
        for key in rows:
            self.log.cleanup((key or b"").decode(), self.clock.now_ms())
        return len(rows)

    def places(self, keys: ErasedKeys) -> list[Place]:
        return [
            self._place(at, record.offset, record.key or b"", is_row=record.value is not None)
            for at in self.log.partitions
            for record in self.log.scan(at, 0, 1 << 30)
            if keys.holds(record.key)
        ]

    def _place(self, partition: int, offset: int, key: bytes, *, is_row: bool) -> Place:
        at_ms = self.written_at_ms.setdefault((partition, offset), self.clock.now_ms())
        return Place(partition, offset, at_ms, key, is_row)

    def due_ms(self, places: Iterable[Place]) -> int:
        places = list(places)
        lag_ms = LAG_MS if any(place.is_row for place in places) else RETENTION_MS
        return max(place.timestamp_ms for place in places) + lag_ms

    def compact(self, places: list[Place], changing: Callable[[Mapping[str, str | None] | None], None]) -> None:
        before = dict(self.config)
        changing(before)
        self.config["segment.ms"] = "1000"
        if self.clock.now_ms() >= self.due_ms(places):
            values = [place for place in places if place.is_row]
            for place in values or places:
                self.log.remove((place.partition, place.offset))
        self.restore_config(before)
        changing(None)

    def restore_config(self, config: Mapping[str, str | None]) -> None:
        self.config |= config

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {at: self.log.committed(at) for at in self.log.partitions}


class HastyLog(PlayedErasedLog):
    """One that keeps deletions for so short a time that its cleaner removes them together with the rows."""

    def compact(self, places: list[Place], changing: Callable[[Mapping[str, str | None] | None], None]) -> None:
        del changing
        for place in places:
            self.log.remove((place.partition, place.offset))


@dataclass
class PlayedCopies:
    """Copies that are made anew when they are asked for."""

    awaited: list[str] = field(default_factory=list)
    made_anew: int = 0

    def renew(self, keys: ErasedKeys, noted: Noted) -> list[str]:
        del keys
        self.made_anew += 1
        noted.renewed["a"] = noted.partitions
        return self.awaited


@dataclass
class World:
    """A store with some changes in its history, and an erasure of the key of Alice."""

    root: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(BEGUN_MS))
    held: list[str] = field(default_factory=list)
    copies: PlayedCopies = field(default_factory=PlayedCopies)
    batches: int = 0

    def __post_init__(self) -> None:
        self.log = PlayedLog("log-1")
        self.played = PlayedStore(self.root / "delta", self.log)
        self.erased_log = PlayedErasedLog(self.log, self.clock)
        self.folder = ErasureFolder(self.root / "erasures", "words")
        keys = ErasedKeys(ServedKind.KEY_VALUE, (ALICE.encode(),))
        self.plan = ErasurePlan(
            *(ID, "words", "app", ServedKind.KEY_VALUE, "log-1", "topic-id", 1, BEGUN_MS),
            *(b"salt".hex(), tuple(keys.hashes(b"salt")), {0: 1}, ("log-1",), YOURS),
        )
        self.folder.put(self.plan, Noted.of(keys.keys))
        for changes in ({ALICE: "ale", BOB: "bun"}, {ALICE: "apple"}, {BOB: "bread", "carol-1": "cider"}):
            self.batch(changes)
            self.snapshot()

    def batch(self, changes: Mapping[str, str | None]) -> None:
        self.clock.advance(1)
        self.log.batch(self.batches, self.clock.now_ms(), changes)
        self.at_ms, self.batches = self.clock.now_ms(), self.batches + 1

    def snapshot(self) -> None:
        self.clock.advance(20_000)  # later than the clocks of drivers and jobs may differ
        self.played.now_ms = self.clock.now_ms()
        self.played.take(batch_of(1, self.batches - 1, self.at_ms), self.batches - 1)

    @property
    def delta(self) -> Path:
        return self.root / "delta"

    def search(self, keys: ErasedKeys) -> Searched:
        searched = Searched()
        searched.read_files(self.delta, keys, own=("words", "words_history"))
        return searched

    def erasure(self) -> Erasure:
        paths = [sealed_at(self.delta / name) for name in ("words", "words_history")]
        return Erasure(
            plan=self.plan,
            folder=self.folder,
            log=self.erased_log,
            tables=ErasedTables("words", paths[0], paths[1], self._prove, self.clock),
            snapshot=self.snapshot,
            upkeep=nullcontext,
            copies=self.copies,
            holds=lambda _: self.held,
            forget=lambda _: [],
            search=self.search,
            not_searched=NOT_SEARCHED,
            clock=self.clock,
        )

    def _prove(self, found: VerifiedVersion) -> None:
        check_proven(self.delta / "words", found, values_of(self.played.store, AppSettings()))

    def files_with(self, needle: str) -> list[str]:
        """The files below the root that have the bytes, as they are or in the columns of a table."""
        searched = Searched()
        searched.read_files(self.root, ErasedKeys(ServedKind.KEY_VALUE, (needle.encode(),)))
        return [one["file"] for one in searched.found]


class DiedError(Exception):
    """A process that was killed."""


class Dying:
    """Calls of another object's methods, of which one dies before it does anything, or after it has."""

    def __init__(self, other: Any, counter: Counter) -> None:
        self._other, self._counter = other, counter

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._other, name)
        return self._counter.dying(found) if callable(found) else found


@dataclass
class Counter:
    """Counts steps: one in front of each call, and one behind it."""

    at: int
    seen: int = 0

    def dying(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self._step()
            result = call(*arguments, **named)
            self._step()
            return result

        return called

    def _step(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise DiedError
