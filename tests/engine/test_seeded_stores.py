"""A local store that begins with a sealed table and reads the tail is that of a replay; else it is replayed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from storekeeper.changelog.checkpoint import Checkpoint
from storekeeper.changelog.restore import SeedRefusal
from storekeeper.engine import local_store
from storekeeper.engine.local_store import LocalStore, position_of
from storekeeper.engine.store_backends import MemoryBackend
from storekeeper.kafka.connection import Kafka
from storekeeper.snapshots import seeds as table_seeds
from storekeeper.topology import Store, StreamsBuilder
from tests.engine.seeded_world import DAY_MS, KINDS, LOG, NOW_MS, World, processor, totals, versioned, windows


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, 1, totals, monkeypatch)


def seeded_in(lines: Sequence[Mapping[str, Any]]) -> list[int]:
    """The offsets that stores were seeded with."""
    return [line["offset"] for line in lines if line["event"] == "store_seeded"]


def whys_in(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why stores were not seeded."""
    return [line["why"] for line in lines if line["event"] == "store_not_seeded"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("describe", KINDS)
def test_rows_and_what_comes_of_them_are_those_of_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, describe: Callable[[StreamsBuilder], object], seed: int
) -> None:
    world = World(tmp_path, seed, describe, monkeypatch)
    world.write_table()
    expected = world.replayed()
    if seed % 2:
        world.compact()
    with structlog.testing.capture_logs() as lines:
        assert world.stored("seeded") == expected
    assert seeded_in(lines) == [world.table_end]
    assert world.read == [(world.table_end, world.end)], "only the tail was read"
    later = [world.batch() for _ in range(6)]
    shutil.rmtree(tmp_path / "seeded")
    assert world.outputs("seeded", later, seeded=True) == world.outputs("replayed", later, seeded=False)


def test_a_store_that_is_far_behind_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, 1, processor, monkeypatch)
    whole, world.end = world.end, world.end // 2
    before, _ = world.stored("stale", seeded=False)
    world.end = world.table_end = whole
    world.write_table()
    expected = world.replayed()
    assert {key for key, _ in before} - {key for key, _ in expected[0]}, "rows were deleted before the table"
    with structlog.testing.capture_logs() as lines:
        assert world.stored("stale") == expected
    assert seeded_in(lines) == [world.table_end]


def test_a_store_in_memory_is_seeded_too(world: World) -> None:
    world.write_table()
    rows = []
    for seeds in (world.tables, None):
        holder = MemoryBackend(world.spec, world.root / f"memory-{seeds is None}")
        store = LocalStore(world.spec, holder, LOG, 0, world.clock, seeds=seeds)
        store.catch_up(Kafka(""), world.end, world.reports.append)
        with store.backend.scan(None, None) as found:
            rows.append(list(found))
        holder.remove()
    assert rows[0] == rows[1]
    assert world.read == [(world.table_end, world.end), (0, world.end)]


def test_the_progress_is_told(world: World) -> None:
    world.write_table()
    world.caught_up("seeded").close()
    loading = [report for report in world.reports if report.total == world.end]
    assert loading[0].done == 0, "before a file is read"
    assert max(report.done for report in loading) > 0
    assert all(report.done < report.total for report in loading)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"changelog_topic": "app-rows-changelog-g2"}, SeedRefusal.FOREIGN),
        ({"changelog_id": "id-0"}, SeedRefusal.TOPIC_RECREATED),
        ({"changelog_offsets": {0: 10_000}}, SeedRefusal.AHEAD_OF_LOG),
        ({"changelog_offsets": {1: 5}}, SeedRefusal.NOT_COVERED),
        ({"batch_ms": NOW_MS - DAY_MS + 3_600_000}, SeedRefusal.TOO_OLD),
        ({"batch_ms": NOW_MS + DAY_MS}, SeedRefusal.FROM_THE_FUTURE),
        ({"one_version": False}, SeedRefusal.SEVERAL_VERSIONS),
        ({"row_count": 10_000}, SeedRefusal.NO_GAIN),
    ],
    ids=str,
)
def test_a_table_that_does_not_fit_is_named_and_left_alone(
    world: World, changes: dict[str, Any], why: SeedRefusal
) -> None:
    world.write_table(**changes)
    expected = world.replayed()
    with structlog.testing.capture_logs() as lines:
        assert world.stored("replayed") == expected
    assert (seeded_in(lines), whys_in(lines), world.read) == ([], [why.value], [(0, world.end)])


def _edited(world: World) -> None:
    file = next((world.root / "delta" / "rows").glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _gone(world: World) -> None:
    shutil.rmtree(world.root / "delta" / "rows")


def _seal_gone(world: World) -> None:
    (world.root / "seals" / "rows.json").unlink()


def _seal_edited(world: World) -> None:
    seal = world.root / "seals" / "rows.json"
    seal.write_bytes(seal.read_bytes().replace(b'"version":0', b'"version":1'))


def _both_gone(world: World) -> None:
    _gone(world)
    _seal_gone(world)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_edited, "was changed"),
        (_gone, "is gone from"),
        (_seal_gone, "has no seal"),
        (_seal_edited, "has a damaged seal"),
        (_both_gone, "it has no sealed table"),
    ],
)
def test_a_table_that_is_not_as_it_was_sealed_is_named_and_left_alone(
    world: World, harm: Callable[[World], object], why: str
) -> None:
    world.write_table()
    expected = world.replayed()
    harm(world)
    with structlog.testing.capture_logs() as lines:
        assert world.stored("replayed") == expected
    (found,) = whys_in(lines)
    assert why in found
    assert (seeded_in(lines), world.read) == ([], [(0, world.end)])


def test_without_a_reader_of_tables_stores_are_replayed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write_table()
    expected = world.replayed()
    monkeypatch.setitem(sys.modules, "storekeeper.snapshots.seal", None)
    with structlog.testing.capture_logs() as lines:
        assert world.stored("replayed") == expected
    assert len(whys_in(lines)) == 1


def test_a_store_that_lacks_little_asks_for_no_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "FAR_BEHIND_RECORDS", world.end + 1)
    with structlog.testing.capture_logs() as lines:
        world.stored("replayed")
    assert whys_in(lines) == []


def bounded(streams: StreamsBuilder) -> None:
    streams.table("events", int, store=Store("rows", int, max_rows=5, backend="memory"))


def test_a_bounded_store_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of its rows says which go first."""
    world = World(tmp_path, 1, bounded, monkeypatch)
    world.write_table()
    holder = MemoryBackend(world.spec, tmp_path / "rows")
    store = LocalStore(world.spec, holder, LOG, 0, world.clock, seeds=world.tables)
    with structlog.testing.capture_logs() as lines:
        store.catch_up(Kafka(""), world.end, world.reports.append)
    holder.remove()
    (why,) = whys_in(lines)
    assert why.startswith("a bounded store")
    assert world.read == [(0, world.end)]


def test_a_store_that_could_not_be_replayed_is_not_emptied_for_a_table(world: World) -> None:
    whole, world.end = world.end, 10
    world.caught_up("kept", seeded=False).close()
    world.write_table()
    world.end, world.start = whole, 5
    world.read.clear()
    with structlog.testing.capture_logs() as lines:
        world.caught_up("kept").close()
    assert (seeded_in(lines), world.read) == ([], [(10, world.end)])


class _KilledError(BaseException):
    pass


@pytest.mark.parametrize(
    ("step", "at"),
    [
        ("_empty", "before"),
        ("_empty", "after"),
        ("_write_seed", "before"),
        ("_write_seed", "after"),
        ("_complete_seed", "before"),
        ("_complete_seed", "after"),
        ("_read", "before"),
    ],
)
@pytest.mark.parametrize("describe", [totals, windows, versioned])
def test_a_task_may_die_at_every_step_of_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, describe: Callable[[StreamsBuilder], object], step: str, at: str
) -> None:
    world = World(tmp_path, 2, describe, monkeypatch)
    world.write_table()
    expected = world.replayed()
    whole = getattr(LocalStore, step)

    def dies(store: LocalStore, *args: Any) -> None:
        if at == "after":
            whole(store, *args)
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, step, dies)
        with pytest.raises(_KilledError):
            world.caught_up("seeded")
    store = world.store("seeded")
    found = position_of(store.backend)
    store.close()
    is_loaded = step == "_read" or (step, at) == ("_complete_seed", "after")
    assert (found is not None) == is_loaded, "rows that are not all there have no checkpoint"
    world.read.clear()
    assert world.stored("seeded") == expected
    assert world.read == [(world.table_end, world.end)]


def test_rows_that_a_crash_left_half_loaded_are_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor if the table can't be used any more."""
    world.write_table()
    expected = world.replayed()
    whole = table_seeds.TableSeed.rows

    def torn(self: table_seeds.TableSeed, partitions: Any) -> Iterator[Any]:
        for partition, rows in whole(self, partitions):
            yield partition, rows[:2]
            raise SystemError("the disk was pulled out")

    with monkeypatch.context() as patch, structlog.testing.capture_logs() as lines:
        patch.setattr(table_seeds.TableSeed, "rows", torn)
        assert world.stored("torn") == expected
    assert [line["event"] for line in lines] == ["store_not_seeded", "local_store_emptied"]
    assert world.read == [(0, world.end)]


def test_a_table_whose_tombstones_go_while_it_is_loaded_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write_table()
    expected = world.replayed()
    whole = table_seeds.TableSeed.rows

    def slow(self: table_seeds.TableSeed, partitions: Any) -> Iterator[Any]:
        yield from whole(self, partitions)
        world.clock.advance(DAY_MS)

    monkeypatch.setattr(table_seeds.TableSeed, "rows", slow)
    rows, _ = world.stored("slow")
    assert rows == expected[0]
    assert world.read == [(0, world.end)]


def test_a_store_that_is_seeded_says_how_old_its_rows_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write_table()

    def dies(*_: Any) -> None:
        raise _KilledError

    monkeypatch.setattr(LocalStore, "_read", dies)
    with pytest.raises(_KilledError):
        world.caught_up("seeded")
    store = world.store("seeded")
    assert position_of(store.backend) == (
        Checkpoint(LOG.topic, LOG.topic_id, 0, world.table_end, NOW_MS - 60_000), world.table_end,
    )  # fmt: skip
    store.close()
