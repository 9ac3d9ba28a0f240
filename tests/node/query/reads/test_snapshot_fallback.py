"""Snapshots answer only who allows it, only when they are new enough, and only when they equal their manifest."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.errors import StorageError
from storekeeper.locations import Location
from storekeeper.node.query.answers.answer import Answer
from storekeeper.node.query.reads.snapshot_fallback import SnapshotFallback
from storekeeper.protocol.freshness import FreshnessRequirement
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.loaded import LoadedSnapshot, load_snapshot
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import sealed_manifest
from tests import snapshot_tables
from tests.snapshot_tables import Row, manifest_of
from tests.snapshots.attacks import edited

ROWS = {b"a": b'{"n":1}', b"b": b'{"n":2}', b"c": b'{"n":3}'}
PARTITIONS = 2
NEWEST_MS = 1_700_000_000_000


def write_snapshot(folder: Path, *, wrong: bool = False) -> None:
    times = [NEWEST_MS - 5, NEWEST_MS, NEWEST_MS - 9]
    rows = [
        Row(partition_for(key, PARTITIONS), offset, time_ms, key, value)
        for offset, (time_ms, (key, value)) in enumerate(zip(times, ROWS.items(), strict=True))
    ]
    manifest = manifest_of(
        rows,
        store="rewards",
        changelog_topic="t",
        changelog_offsets={0: 10, 1: 20},
        source_offsets=Position({"pos": {0: 100}}),
    )
    if wrong:
        manifest = replace(manifest, digests={p: digest + 1 for p, digest in manifest.digests.items()})
    snapshot_tables.write_snapshot(folder / "rewards", rows, manifest=manifest)


def ask(fallback: SnapshotFallback, key: bytes, query: str) -> Answer | None:
    return asyncio.run(fallback.answer("rewards", key, FreshnessRequirement.parse(query)))


@pytest.fixture
def fallback(tmp_path: Path) -> SnapshotFallback:
    write_snapshot(tmp_path)
    return SnapshotFallback("a", tmp_path, tmp_path / "seals", {"rewards": "t"}.get, ManualClock(NEWEST_MS + 60_000))


def test_it_answers_who_allows_it(fallback: SnapshotFallback) -> None:
    answer = ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000")
    assert answer is not None
    headers = dict(answer.headers)
    assert answer.body == b'{"key":"b","value":{"n":2}}'
    assert headers[b"storekeeper-role"] == b"snapshot"
    assert headers[b"storekeeper-staleness-ms"] == b"60000"
    assert headers[b"storekeeper-offset"] in {b"10", b"20"}


def test_an_unknown_key_is_one_here_too(fallback: SnapshotFallback) -> None:
    answer = ask(fallback, b"nobody", "snapshot=ok&max_staleness_ms=60000")
    assert answer is not None
    assert answer.status == 404


@pytest.mark.parametrize(
    "query",
    [
        "max_staleness_ms=60000",
        "snapshot=ok",
        "snapshot=ok&max_staleness_ms=59999",
        "snapshot=ok&max_staleness_ms=60000&max_lag=5",
        "snapshot=ok&max_staleness_ms=60000&stale=no",
        "snapshot=ok&max_staleness_ms=60000&position=pos:0:100",
    ],
)
def test_it_is_silent_otherwise(fallback: SnapshotFallback, query: str) -> None:
    assert ask(fallback, b"b", query) is None


def test_a_position_that_it_holds_is_met(fallback: SnapshotFallback) -> None:
    assert ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000&position=pos:0:99") is not None


def test_a_snapshot_that_differs_from_its_manifest_never_answers(tmp_path: Path) -> None:
    write_snapshot(tmp_path, wrong=True)
    manifest = newest_manifest(tmp_path / "rewards")
    assert manifest is not None
    with pytest.raises(StorageError, match="holds other rows at version 0 than its manifest says"):
        load_snapshot(tmp_path / "rewards", manifest)
    fallback = SnapshotFallback("a", tmp_path, tmp_path / "seals", {"rewards": "t"}.get, ManualClock(NEWEST_MS))
    assert ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000") is None


@pytest.mark.parametrize("column", ["_timestamp_ms", "_value"])
def test_a_table_that_something_else_wrote_to_never_answers(tmp_path: Path, column: str) -> None:
    write_snapshot(tmp_path)
    DeltaTable(tmp_path / "rewards").update(updates={column: column}, predicate="_offset = 0")
    fallback = SnapshotFallback("a", tmp_path, tmp_path / "seals", {"rewards": "t"}.get, ManualClock(NEWEST_MS))
    assert ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000") is None


def test_a_row_without_a_key_is_damage_and_no_crash(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    edited("_key", None)(tmp_path / "rewards")
    manifest = newest_manifest(tmp_path / "rewards")
    assert manifest is not None
    with pytest.raises(StorageError, match="lacks keys, values or places of rows at version 0"):
        load_snapshot(tmp_path / "rewards", manifest)


def test_a_time_that_was_edited_does_not_make_rows_fresher(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    edited("_timestamp_ms", NEWEST_MS + 60_000)(tmp_path / "rewards")
    fallback = SnapshotFallback("a", tmp_path, tmp_path / "seals", {"rewards": "t"}.get, ManualClock(NEWEST_MS))
    assert ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000") is None


def test_no_snapshot_or_one_of_another_topic_is_none(tmp_path: Path) -> None:
    def answer(topic: str, max_rows: int = 3) -> Answer | None:
        topics, clock = {"rewards": topic}, ManualClock(NEWEST_MS)
        fallback = SnapshotFallback("a", tmp_path, tmp_path / "seals", topics.get, clock, max_rows=max_rows)
        return ask(fallback, b"b", "snapshot=ok&max_staleness_ms=60000")

    assert answer("t") is None
    write_snapshot(tmp_path)
    assert answer("t") is not None
    assert answer("other") is None
    assert answer("t", max_rows=2) is None


def test_a_version_is_read_once(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    clock = ManualClock(NEWEST_MS)
    loads: list[int] = []
    manifest = newest_manifest(tmp_path / "rewards")
    assert manifest is not None
    snapshot = load_snapshot(tmp_path / "rewards", manifest)
    current = [manifest]

    def load(_path: Path, wanted: SnapshotManifest) -> object:
        loads.append(wanted.delta_version)
        return replace(snapshot, manifest=wanted)

    fallback = SnapshotFallback(
        "a",
        tmp_path,
        tmp_path / "seals",
        {"rewards": "t"}.get,
        clock,
        newest=lambda *_: current[0],
        load=load,  # type: ignore[arg-type]
    )
    requirement = FreshnessRequirement.parse("snapshot=ok&max_staleness_ms=600000")

    async def scenario() -> None:
        for _ in range(3):
            await fallback.answer("rewards", b"b", requirement)
        clock.advance(6000)
        await fallback.answer("rewards", b"b", requirement)
        current[0] = replace(manifest, delta_version=1)
        clock.advance(6000)
        await fallback.answer("rewards", b"b", requirement)

    asyncio.run(scenario())
    assert loads == [0, 1]


def test_who_gives_up_waiting_lets_no_second_reading_begin_beside_the_first(tmp_path: Path) -> None:
    write_snapshot(tmp_path)
    begun, goes_on = threading.Event(), threading.Event()
    loads: list[int] = []

    def load(path: Location, wanted: Any) -> LoadedSnapshot:
        loads.append(wanted.delta_version)
        begun.set()
        assert goes_on.wait(30)
        return load_snapshot(path, wanted)

    clock, topics = ManualClock(NEWEST_MS), {"rewards": "t"}
    fallback = SnapshotFallback("a", tmp_path, tmp_path / "seals", topics.get, clock, newest=sealed_manifest, load=load)
    requirement = FreshnessRequirement.parse("snapshot=ok&max_staleness_ms=600000")

    async def scenario() -> Answer | None:
        asked = [asyncio.create_task(fallback.answer("rewards", b"b", requirement)) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 30)
        asked[0].cancel()
        await asyncio.wait(asked[:1])
        again = asyncio.create_task(fallback.answer("rewards", b"b", requirement))
        await asyncio.sleep(0)
        goes_on.set()
        assert await asked[1] == await asked[2]
        return await again

    assert asyncio.run(scenario()) is not None
    assert loads == [0]
