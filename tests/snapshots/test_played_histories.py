"""Histories as our job writes them, read for any time and compared with what the store was as it was produced.

The changelog is compacted before it is read, deletions are forgotten, clean-ups delete rows, generations come and go
back, event times are old or far ahead, upkeep thins, sorts and vacuums; and in between a snapshot is taken or not.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.errors import NotExactError
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.pages import PageLimits, Scan
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.snapshots.as_of import HISTORY, changes_between_keys, rows_of_key
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from storekeeper.snapshots.key_changes import changes_of_key
from storekeeper.snapshots.sql import query
from storekeeper.snapshots.table_upkeep import HOUR_MS, keep_up
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.played_log import STORE, TOMBSTONES_MS, PlayedLog, PlayedStore, batch_of

Content = dict[str, str]
ROW_KEYS: dict[ServedKind, Callable[[str], bytes]] = {
    ServedKind.KEY_VALUE: str.encode,
    ServedKind.RANKED: str.encode,
    ServedKind.WINDOW: lambda name: window_row_key(name[:1].encode(), int(name[1:]) * 60_000),
    ServedKind.SESSION: lambda name: session_row_key(name[:1].encode(), int(name[1:]) * 60_000, int(name[1:]) * 70_000),
}
"""How rows are keyed: `b2` is the third window or session of key b, or a key of its own."""
NAMES = [f"{key}{number}" for key in "abc" for number in range(3)]
STEPS = 24


class Life:
    """A random life of a store, and what it was at each time."""

    def __init__(self, root: Path, kind: ServedKind, seed: int) -> None:
        self.kind, self.row_key = kind, ROW_KEYS[kind]
        self.drawn = random.Random(f"{kind} {seed}")
        score_field = "Word" if kind is ServedKind.RANKED else None
        store = replace(STORE, kind=kind, score_field=score_field)
        self.played = PlayedStore(root, PlayedLog("log-1", row_key=self.row_key), store)
        self.was: list[tuple[int, Content]] = [(0, {})]
        self.logs = [self.played.log]
        self.left: dict[str, Content] = {}
        self.batches = {1: -1}
        self.finished_ms: dict[int, int] = {}
        self.live_from: dict[int, int] = {}
        self._batch({"a1": "x"})
        for _ in range(STEPS):
            self._step()
        self._snapshot()

    def at(self, at_ms: int) -> Content:
        """The rows after the last batch or clean-up until a time."""
        return next(content for since, content in reversed(self.was) if since <= at_ms)

    def times(self) -> list[int]:
        """The times at which something happened, and those around them."""
        return sorted({at + step for at, _ in self.was[1:] for step in (-1, 0, 1)})

    @property
    def _content(self) -> Content:
        return self.was[-1][1]

    def _step(self) -> None:
        self.played.log.timestamp_ms = self.drawn.choice([7, self.played.now_ms, self.played.now_ms + 10**11])
        chosen = self.drawn.sample(NAMES, self.drawn.randrange(5))
        self._batch({name: self.drawn.choice([None, "x", "y", "z"]) for name in chosen})
        for chance, happens in (
            (0.4, self._snapshot), (0.5, self._compact), (0.2, self._clean_up), (0.1, self._hand_over),
            (0.1, self._go_back), (0.1, self._keep_up), (0.03, self._forget_deletions),
        ):  # fmt: skip
            if self.drawn.random() < chance:
                happens()

    def _batch(self, changes: dict[str, str | None]) -> None:
        generation = self.played.log.generation
        self.batches[generation] += 1
        at_ms = self.finished_ms[generation] = self._later()
        self.played.log.batch(self.batches[generation], at_ms, changes)
        self._note(at_ms, {**self._content, **changes})

    def _snapshot(self) -> None:
        self._later()
        generation = self.played.log.generation
        batch = self.batches[generation]
        self.played.live_from = self.live_from.get(generation, 0)
        self.played.take(batch_of(generation, batch, self.finished_ms[generation]), batch)

    def _compact(self) -> None:
        for place in self.played.log.replaced():
            if self.drawn.random() < 0.3:
                self.played.log.remove(place)

    def _clean_up(self) -> None:
        if self._content:
            name, at_ms = self.drawn.choice(sorted(self._content)), self._later()
            self.played.log.cleanup(name, at_ms)
            self._note(at_ms, {**self._content, name: None})

    def _hand_over(self) -> None:
        self.left[self.played.log.topic] = self._content
        generation = len(self.logs) + 1
        self.played.log = PlayedLog(f"log-{generation}", generation, self.row_key)
        self.played.log.seed(self._later(), self._content)
        self.logs.append(self.played.log)
        self.batches[generation] = -1
        self._batch({})

    def _go_back(self) -> None:
        self.left[self.played.log.topic] = self._content
        chosen, at_ms = self.drawn.choice(self.logs), self._later()
        if chosen is not self.played.log:
            generation = chosen.generation
            self.batches[generation] += 1  # it has run on
            self.finished_ms[generation] = at_ms
            self.live_from[generation] = self.batches[generation] + 1
        self.played.log = chosen
        self._note(at_ms, dict(self.left[chosen.topic]))

    def _keep_up(self) -> None:
        now_ms = self._later()
        keep_up(self._entry("").sealed, [], now_ms=now_ms, history_ms=HOUR_MS)
        HistoryUpkeep(self._entry(HISTORY).sealed, "words", now_ms).run(kept_ms=2 * DAY_MS, versions_ms=HOUR_MS)

    def _forget_deletions(self) -> None:
        self._batch({})
        self.played.now_ms += TOMBSTONES_MS
        self.played.log.forget_deletions()

    def _entry(self, suffix: str) -> Any:
        return self.played.entry(suffix)

    def _later(self) -> int:
        self.played.now_ms += self.drawn.choice([7000, 60_000, 3_600_000])
        return self.played.now_ms

    def _note(self, at_ms: int, content: dict[str, str | None]) -> None:
        self.was.append((at_ms, {name: word for name, word in content.items() if word is not None}))


class Reads:
    """Random reads of a life's history."""

    def __init__(self, life: Life, root: Path) -> None:
        history = StoreHistory.beside(root / "words")
        assert history is not None
        self.life, self.root, self.history = life, root, history
        self.times = life.times()

    def is_exact(self, at_ms: int) -> bool:
        return self.history.coverage.earliest_exact(at_ms) == at_ms

    def exact_times(self) -> Iterator[int]:
        """Random exact times, for ever. One that is not is refused."""
        assert any(map(self.is_exact, self.times))
        while True:
            at_ms = self.life.drawn.choice(self.times)
            if self.is_exact(at_ms):
                yield at_ms
            else:
                with pytest.raises(NotExactError):
                    self.history.as_of(at_ms)

    def keys(self, count: int) -> None:
        """Reads what a random key had at a random time: all of its rows, as a node does."""
        for at_ms, _ in zip(self.exact_times(), range(count), strict=False):
            name = self.life.drawn.choice(NAMES)
            key = name.encode() if self.life.row_key is str.encode else name[:1].encode()
            between = changes_between_keys(*rows_of_key(self.life.kind, key))
            rows = self.history.folded(("_key", "Word"), at_ms, between)
            known = {self.life.row_key(one): word for one, word in self.life.at(at_ms).items()}
            own = {
                one: known[one] for one in map(self.life.row_key, NAMES) if one in known and _is_of(one, key, self.life)
            }
            assert {row["_key"]: row["Word"] for row in rows} == own, (name, at_ms)
            assert len(rows) == len(own)

    def scans(self, count: int) -> None:
        """Reads all rows at a random time page by page, as a node does."""
        past = PastReads("a", self.root, SystemClock())
        for at_ms, _ in zip(self.exact_times(), range(count), strict=False):
            reverse, limits = self.life.drawn.random() < 0.5, PageLimits(self.life.drawn.randrange(1, 5), 1000)
            scan, found = Scan("words", reverse=reverse), list[tuple[bytes, bytes]]()
            while True:
                page = asyncio.run(past.page(scan, limits, at_ms, lambda _: 0, of_one_key=False))
                found += page.rows
                if page.reached is None:
                    break
                scan = scan.beyond(page.reached)
            known = {self.life.row_key(name): word for name, word in self.life.at(at_ms).items()}
            assert [(key, orjson.loads(value)["Word"]) for key, value in found] == sorted(
                known.items(), reverse=reverse
            ), at_ms
        past.close()

    def joins(self, count: int, labels: int = 5) -> None:
        """Joins random rows and times with what was known then."""
        times = self.exact_times()
        for _ in range(count):
            asked = [(self.life.drawn.choice(NAMES), next(times)) for _ in range(labels)]
            at = [datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC) for _, at_ms in asked]
            table = pa.table({
                "number": range(labels),
                "_key": [self.life.row_key(name) for name, _ in asked],
                "at": pa.array(at, pa.timestamp("us", "UTC")),
            })  # fmt: skip
            found = dict(query(self.root, _JOIN, tables={"labels": table}).rows)
            assert found == {number: self.life.at(at_ms).get(name) for number, (name, at_ms) in enumerate(asked)}, asked

    def all_rows(self) -> None:
        """Reads all rows at every time. Right after an event they are those of its time, except for the last."""
        events = {at_ms for at_ms, _ in self.life.was}
        for at_ms in (one for one in self.times if one - 1 not in events or one == self.times[-1]):
            if not self.is_exact(at_ms):
                with pytest.raises(NotExactError):
                    query(self.root, "FROM words", as_of_ms=at_ms)
                continue
            rows = query(self.root, "SELECT _key, Word FROM words", as_of_ms=at_ms).rows
            assert dict(rows) == {self.life.row_key(name): word for name, word in self.life.at(at_ms).items()}

    def changes(self) -> None:
        """What became of each row gives what it was at every time."""
        for name in NAMES:
            row_key = self.life.row_key(name)
            key = row_key if self.life.row_key is str.encode else name[:1].encode()
            changes = [one for one in changes_of_key(self.history, key, most=1000) if one.row_key == row_key]
            for at_ms in filter(self.is_exact, self.times):
                newest = next((change for change in changes if change.at_ms <= at_ms), None)
                fields = None if newest is None else newest.fields
                assert (None if fields is None else fields["Word"]) == self.life.at(at_ms).get(name), (name, at_ms)


_JOIN = "SELECT number, Word FROM labels l ASOF LEFT JOIN words_changes c ON l._key = c._key AND l.at >= c.changed_at"


def _is_of(row_key: bytes, key: bytes, life: Life) -> bool:
    start, stop = rows_of_key(life.kind, key)
    return start <= row_key < stop


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ROW_KEYS)
def test_every_exact_time_is_as_it_was(kind: ServedKind, seed: int, tmp_path: Path) -> None:
    """A hundredth of the long test's reads and joins, and all rows at every time."""
    life = Life(tmp_path, kind, seed)
    reads = Reads(life, tmp_path)
    reads.keys(13)
    reads.scans(3)
    reads.joins(2)
    reads.all_rows()
    reads.changes()
    assert life.played.flaws() == []


@pytest.mark.long("test_every_exact_time_is_as_it_was: a hundredth of the reads")
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("kind", ROW_KEYS)
def test_ten_thousand_reads_and_a_thousand_joins_are_as_it_was(kind: ServedKind, seed: int, tmp_path: Path) -> None:
    """10,000 reads of a key at a time and 1,000 joins, each of four kinds of stores in ten lives a fortieth."""
    life = Life(tmp_path, kind, seed)
    reads = Reads(life, tmp_path)
    reads.keys(250)
    reads.scans(25)
    reads.joins(25)
    assert life.played.flaws() == []
