"""Histories as our job writes them, from a changelog that is compacted and changes generations, read for any time."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pyarrow as pa
import pytest

from storekeeper.errors import NotExactError
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import changes_of_key
from storekeeper.snapshots.sql import query
from tests.snapshots.played_log import PlayedLog, PlayedStore, batch_of

KEYS = "abcdef"
Content = dict[str, str]


class Life:
    """A random life of a store, and what it was at each time."""

    def __init__(self, root: Path, seed: int) -> None:
        self.drawn = random.Random(seed)
        self.played = PlayedStore(root, PlayedLog("log-1"))
        self.was: list[tuple[int, Content]] = [(0, {})]
        self.batch = -1
        for _ in range(18):
            self._step()
        self._snapshot()

    def at(self, at_ms: int) -> Content:
        """The rows after the last batch until a time."""
        return next(content for since, content in reversed(self.was) if since <= at_ms)

    def _step(self) -> None:
        self.played.now_ms += self.drawn.choice([10, 1000, 3_600_000])
        self.batch += 1
        chosen = self.drawn.sample(KEYS, self.drawn.randrange(5))
        changes = {key: self.drawn.choice([None, "x", "y", "z"]) for key in chosen}
        self.played.log.batch(self.batch, self.played.now_ms, changes)
        content = {**self.was[-1][1], **changes}
        self.was.append((self.played.now_ms, {key: word for key, word in content.items() if word is not None}))
        if self.drawn.random() < 0.4:
            self._snapshot()
        for place in self.played.log.replaced():
            if self.drawn.random() < 0.2:
                self.played.log.remove(place)
        if self.drawn.random() < 0.1:
            self._hand_over()

    def _snapshot(self) -> None:
        at_ms = self.was[-1][0]
        self.played.now_ms += 5
        self.played.take(batch_of(self.played.log.generation, self.batch, at_ms), self.batch)

    def _hand_over(self) -> None:
        generation, content = self.played.log.generation + 1, self.was[-1][1]
        self.played.log = PlayedLog(f"log-{generation}", generation)
        self.played.now_ms += 10
        self.played.log.seed(self.played.now_ms, content)
        self.played.now_ms += 10
        self.batch = 0
        self.played.log.batch(0, self.played.now_ms, {})
        self.was.append((self.played.now_ms, content))


@pytest.mark.parametrize("seed", range(6))
def test_every_exact_time_is_as_it_was(seed: int, tmp_path: Path) -> None:
    life = Life(tmp_path, seed)
    history = StoreHistory.beside(tmp_path / "words")
    assert history is not None
    exact = 0
    for at_ms in sorted({at + step for at, _ in life.was[1:] for step in (-1, 0)}):
        if history.coverage.earliest_exact(at_ms) != at_ms:
            with pytest.raises(NotExactError):
                query(tmp_path, "FROM words", as_of_ms=at_ms)
            continue
        exact += 1
        rows = query(tmp_path, "SELECT decode(_key), Word FROM words", as_of_ms=at_ms).rows
        assert dict(rows) == life.at(at_ms)
    assert exact
    _check_joins(tmp_path, life, history)
    _check_keys(life, history)


def _check_joins(root: Path, life: Life, history: StoreHistory) -> None:
    asked = [(key, at_ms) for key in f"{KEYS}g" for at_ms, _ in life.was[1:]]
    times = [datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC) for _, at_ms in asked]
    number = list(range(len(asked)))
    kind = pa.timestamp("us", "UTC")
    labels = pa.table({"number": number, "key": [key for key, _ in asked], "at": pa.array(times, kind)})
    joined = (
        "SELECT number, Word FROM labels l ASOF LEFT JOIN words_changes c ON l.key = c.key AND l.at >= c.changed_at"
    )
    found = dict(query(root, joined, tables={"labels": labels}).rows)
    for one, (key, at_ms) in enumerate(asked):
        if history.coverage.earliest_exact(at_ms) == at_ms:
            assert found[one] == life.at(at_ms).get(key), (key, at_ms)


def _check_keys(life: Life, history: StoreHistory) -> None:
    for key in KEYS:
        changes = changes_of_key(history, key.encode(), most=1000)
        for at_ms, content in life.was[1:]:
            if history.coverage.earliest_exact(at_ms) == at_ms:
                newest = next((change for change in changes if change.at_ms <= at_ms), None)
                fields = None if newest is None else newest.fields
                assert (None if fields is None else fields["Word"]) == content.get(key), (key, at_ms)
