"""The rows at one cut, read while the app writes on and the log's cleaner runs, equal a replay or are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.scan import is_whole
from storekeeper.errors import ChangelogError, NotExactError, SnapshotDamagedError
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots import rows_now as module
from storekeeper.snapshots.rows_now import RowsNow, rows_now
from storekeeper.snapshots.seal import SealedTable
from tests.changelog.messages import Record
from tests.snapshots.played_log import STORE, TOMBSTONES_MS, PlayedLog, PlayedStore, batch_of, partition_of

WORDS = replace(STORE, topic="log-1")
NAMES = [f"{letter}{number}" for letter in "abcd" for number in range(3)]


class ReadLog:
    """A played log as `Changelog` shows it."""

    def __init__(self, played: PlayedStore, first: int = 0) -> None:
        self._log = played.log
        self._first = first
        self.facts = SimpleNamespace(topic_id=played.changelog_id, delete_retention_ms=TOMBSTONES_MS)
        self.topic = played.log.topic
        self.stable_end = played.log.stable_end
        self.scan = played.log.scan

    def first(self, _: int) -> int:
        return self._first

    def committed_ends(self) -> dict[int, int]:
        return dict(self._log.ends)

    def is_whole(self, partition: int, start: int, end: int) -> bool:
        records = [_as_sent(one) for one in self._log.scan(partition, start, end)]
        return is_whole(records, [one.at for one in records], start, end)


def _as_sent(record: LogRecord) -> Record:
    return Record(record.offset, record.key, record.value, record.timestamp_ms, tuple(record.headers))


class World:
    """A store whose app, snapshots and cleaner a test plays."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.played = PlayedStore(root, PlayedLog("log-1"))
        self.settings = AppSettings(run_dir=root)
        self.content: dict[str, str] = {}
        self.batch_id = -1
        self.first = 0
        patch.setattr(module, "Changelog", lambda *_: ReadLog(self.played, self.first))
        patch.setattr(SealedTable, "of", lambda *_: self.played.entry().sealed)

    def batch(self, changes: dict[str, str | None]) -> None:
        self.batch_id += 1
        self.played.now_ms += 1000
        self.played.log.batch(self.batch_id, self.played.now_ms, changes)
        self.content = {name: word for name, word in {**self.content, **changes}.items() if word is not None}

    def snapshot(self) -> None:
        self.played.now_ms += 1000
        self.played.take(batch_of(1, self.batch_id, self.played.now_ms), self.batch_id)

    def compact(self, drawn: random.Random) -> bool:
        """Removes some records that newer ones replace; whether there were any."""
        gone = [place for place in self.played.log.replaced() if drawn.random() < 0.7]
        for place in gone:
            self.played.log.remove(place)
        return bool(gone)

    def plan(self) -> RowsNow:
        return rows_now(WORDS, self.settings, self.played.now_ms)


def read(planned: RowsNow, **options: Any) -> dict[str, str]:
    """The rows by key; each is there once, and as the table would have it."""
    found = [
        row
        for partition in planned.stretches
        for batch in planned.rows(partition, **options)
        for row in batch.to_pylist()
    ]
    assert len({row["_key"] for row in found}) == len(found)
    for row in found:
        assert row["_value"] == b'{"Word":"%b"}' % row["Word"].encode()
        assert row["_partition"] == partition_of(row["_key"].decode())
    return {row["_key"].decode(): row["Word"] for row in found}


@pytest.mark.parametrize("seed", range(60))
def test_rows_at_a_cut_equal_a_replay_or_are_refused(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, world = random.Random(seed), World(tmp_path, monkeypatch)

    def happens(times: int) -> None:
        for _ in range(times):
            chosen = drawn.sample(NAMES, drawn.randrange(6))
            world.batch({name: drawn.choice([None, "x", "y", "z"]) for name in chosen})

    world.batch(dict.fromkeys(NAMES[:5], "x"))
    with_snapshot, cleaner_before, cleaner_after = (drawn.random() < 0.6 for _ in range(3))
    happens(drawn.randrange(4))
    if with_snapshot:
        world.snapshot()
    happens(drawn.randrange(4))
    compacted = cleaner_before and world.compact(drawn)
    planned, expected = world.plan(), dict(world.content)
    assert any(one.from_table for one in planned.stretches.values()) == with_snapshot
    newer = drawn.randrange(3)
    happens(newer)
    compacted |= cleaner_after and world.compact(drawn)
    try:
        found = read(planned)
    except NotExactError:
        found = None
    if found is None:
        assert compacted, "what no cleaner has touched is known"
        assert newer, "without newer changes the cleaner takes nothing that counts"
    else:
        assert found == expected


def test_a_row_that_the_cleaner_took_for_a_newer_one_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    world.batch({"a1": "old", "a2": "kept"})
    world.snapshot()
    world.batch({"a1": "at the cut"})
    planned = world.plan()
    world.batch({"a1": "newer"})
    assert read(planned) == {"a1": "at the cut", "a2": "kept"}
    for place in world.played.log.replaced():
        world.played.log.remove(place)
    with pytest.raises(NotExactError, match=r"rows change while they are read.*storekeeper snapshot create words"):
        read(planned)
    other = [(b"a2", b"a2\0")]
    assert read(planned, ranges=other) == {"a2": "kept"}, "no newer change is of the key that is asked for"
    assert read(world.plan()) == {"a1": "newer", "a2": "kept"}


def test_the_table_is_read_only_where_a_replica_would_begin_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    world.batch({"a1": "x", "b1": "x"})
    world.snapshot()
    world.batch({"a2": "x", "b1": None})
    assert {one.from_table for one in world.plan().stretches.values()} == {True}
    later = rows_now(WORDS, world.settings, world.played.now_ms + TOMBSTONES_MS)
    assert {one.from_table for one in later.stretches.values()} == {False}, "deletions may be gone from the log"
    assert read(later) == {"a1": "x", "a2": "x"}
    other_columns = replace(WORDS, value_fields=(ValueField("Word", "string"), ValueField("More", "int")))
    assert not any(
        one.from_table for one in rows_now(other_columns, world.settings, world.played.now_ms).stretches.values()
    )
    world.played.changelog_id = "id-2"
    assert not any(one.from_table for one in world.plan().stretches.values()), "the topic was recreated"


def test_what_can_not_be_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    world.batch({"a1": "x"})
    planned = world.plan()
    world.played.changelog_id = "id-2"
    with pytest.raises(ChangelogError, match="recreated while it was read"):
        read(planned)
    world.first = 1
    with pytest.raises(ChangelogError, match="its first records were deleted"):
        world.plan()
    world.first, world.played.changelog_id = 0, "id-1"
    world.snapshot()
    (tmp_path / "words" / "foreign").write_bytes(b"")
    with pytest.raises(SnapshotDamagedError, match="foreign was added"):
        world.plan()


def test_keys_in_ranges_alone_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    world.batch({"a1": "x", "b1": "y", "c1": "z"})
    world.snapshot()
    world.batch({"b1": "w", "d1": "v"})
    planned = world.plan()
    assert read(planned, ranges=[(b"a1", b"a1\0"), (b"d1", b"d1\0")]) == {"a1": "x", "d1": "v"}
    assert read(planned, ranges=[]) == {}
    many = [(b"n%d" % number, b"n%d\0" % number) for number in range(100, 200)]
    assert read(planned, ranges=[*many, (b"d1", b"d1\0"), (b"a1", b"a1\0")]) == {"a1": "x", "d1": "v"}
