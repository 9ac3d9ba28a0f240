"""What an erasure leaves and takes, in which order, and what its certificate says; with a played changelog."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.headers import CHANGES
from storekeeper.erasure.erasure import Erasure, ErasurePendingError, ErasureRefusedError
from storekeeper.erasure.folder import Noted
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.program import ExitCode, exit_code_of
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.history import history_of
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.histories import HistoryCopy
from tests.erasure.played import ALICE, BOB, ID, LAG_MS, RETENTION_MS, YOURS, Counter, DiedError, Dying, HastyLog, World
from tests.snapshot_tables import sealed_at

OTHERS = {BOB: "bread", "carol-1": "cider"}
STEPS_MS = (0, LAG_MS, RETENTION_MS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def completed(world: World) -> dict[str, Any]:
    """The certificate, after as many calls as it takes."""
    for waited_ms in STEPS_MS:
        world.clock.advance(waited_ms)
        try:
            return world.erasure().run()
        except ErasurePendingError:
            pass
    return world.erasure().run()


def rows_at(world: World, at_ms: int) -> dict[str, str]:
    history = StoreHistory.beside(world.delta / "words")
    assert history is not None
    return {row["_key"].decode(): row["Word"] for row in history.folded(["_key", "Word"], at_ms)}


def flaws(world: World) -> list[str]:
    """What verification says of the tables."""
    table = world.delta / "words"
    seal = sealed_at(table).current(whole=True)
    assert seal is not None
    values = values_of(world.played.store, AppSettings())
    return list(HistoryCopy(history_of(table), world.log, values, table, seal.manifest).flaws())


def test_nothing_of_a_key_is_left_and_all_of_the_others_is(world: World) -> None:
    history = StoreHistory.beside(world.delta / "words")
    assert history is not None
    before = {at_ms: rows_at(world, at_ms) for at_ms in range(history.coverage.from_ms, history.coverage.to_ms, 5000)}
    assert any(ALICE in rows for rows in before.values())
    certificate = completed(world)
    assert world.files_with(ALICE) == []
    assert certificate["found_elsewhere"] == []
    assert world.copies.made_anew == 1
    assert flaws(world) == []
    for at_ms, rows in before.items():
        assert rows_at(world, at_ms) == {key: word for key, word in rows.items() if key != ALICE}
    assert ALICE not in json.dumps(certificate)
    assert BOB in {key for rows in before.values() for key in rows}


def test_the_last_change_of_a_partition_may_be_one_that_was_erased(world: World) -> None:
    world.batch({ALICE: "amber"})
    world.snapshot()
    completed(world)
    assert flaws(world) == [], "it has counted the erased changes, and no record says so"
    world.batch({"carol-1": "cola"})
    world.snapshot()
    assert flaws(world) == []
    at, last = max(world.log.logs[1].items())
    world.log.logs[1][at] = last._replace(headers=[*last.headers[:-1], (CHANGES, b"99")])
    assert flaws(world) == ["words_history, partition 1: counts other changes than the changelog in 1 records"]


def test_the_tables_have_what_the_changelog_has_at_each_step(world: World) -> None:
    def changes() -> list[tuple[int, bool]]:
        history = StoreHistory.beside(world.delta / "words")
        assert history is not None
        rows = history.changes(f"_key = X'{ALICE.encode().hex()}'")._table.to_pyarrow_table()
        found = [row for row in rows.to_pylist() if row["_key"] == ALICE.encode()]
        return sorted((row["_offset"], row["_value"] is not None) for row in found)

    keys = ErasedKeys(ServedKind.KEY_VALUE, (ALICE.encode(),))
    reasons = []
    for waited_ms in STEPS_MS[:2]:
        world.clock.advance(waited_ms)
        with pytest.raises(ErasurePendingError) as caught:
            world.erasure().run()
        reasons.append(str(caught.value))
        assert exit_code_of(caught.value) is ExitCode.TRY_AGAIN
        assert changes() == sorted((place.offset, place.is_row) for place in world.erased_log.places(keys))
        assert flaws(world) == []
        history = StoreHistory.beside(world.delta / "words")
        assert history is not None
        assert rows_at(world, history.coverage.to_ms) == OTHERS
    assert "2 old values are in log-1, which its cleaner removes from 2025" in reasons[0]
    assert "1 deletions are in log-1" in reasons[1]
    assert all(f"`storekeeper erase words --run {ID}` goes on" in reason for reason in reasons)


def test_the_tables_have_the_deletions_before_the_cleaner_may_remove_them(world: World) -> None:
    world.erased_log = HastyLog(world.log, world.clock)
    world.erasure().run()
    assert world.files_with(ALICE) == []
    assert flaws(world) == []
    history = StoreHistory.beside(world.delta / "words")
    assert history is not None
    assert rows_at(world, history.coverage.to_ms) == OTHERS


def test_a_certificate_names_the_keys_of_which_there_was_no_record(world: World) -> None:
    keys = ErasedKeys(ServedKind.KEY_VALUE, (ALICE.encode(), b"alice-misspelt"))
    hashes = tuple(keys.hashes(b"salt"))
    world.plan = replace(world.plan, hashes=hashes)
    world.folder.put(world.plan, Noted.of(keys.keys))
    world.batch({ALICE: None})
    world.snapshot()
    for place in world.erased_log.places(keys):  # deleted long ago: the history alone still has it
        world.log.remove((place.partition, place.offset))
    assert completed(world)["no_record_found_of"] == [hashes[1]]


def test_a_plan_says_of_how_many_keys_there_is_no_record(world: World) -> None:
    assert "No record was found" not in world.plan.as_text()
    assert "**No record was found of 1 of 1 keys**" in replace(world.plan, unknown=world.plan.hashes).as_text()


def test_a_certificate_names_what_was_read_and_what_was_not(world: World) -> None:
    certificate = completed(world)
    assert certificate["changelog"]["erased_offsets"] == {"1": [0, 2, 6]}
    assert certificate["changelog"]["read_without_them"].keys() == {"0", "1"}
    tables = {one["table"]: one for one in certificate["tables"]}
    assert tables.keys() == {"words", "words_history"}
    for name, one in tables.items():
        folder = world.delta / name
        assert one["files"].keys() == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert certificate["nodes"] == {"a": [1]}
    assert certificate["yours"] == list(YOURS)
    assert all(any(what in one for one in certificate["not_searched"]) for what in ("backups", "keys as numbers"))
    assert certificate["keys"]["hashes"] == ErasedKeys(ServedKind.KEY_VALUE, (ALICE.encode(),)).hashes(b"salt")
    assert world.erasure().run() == certificate, "a repeated call does nothing"


def test_the_keys_are_private_and_gone_with_the_certificate(world: World) -> None:
    file = world.root / "erasures" / ID / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    completed(world)
    assert not file.exists()
    with pytest.raises(StorageError, match="lost its keys"):
        world.folder.noted(ID)


def test_what_keeps_a_key_is_named_and_nothing_is_done(world: World) -> None:
    world.held.append("clean-up c of words has archived rows of them, and can be undone until tomorrow")
    before = dict(world.log.ends)
    with pytest.raises(ErasureRefusedError, match="nothing was erased: clean-up c of words") as caught:
        world.erasure().run()
    assert exit_code_of(caught.value) is ExitCode.REFUSED
    assert world.log.ends == before


def test_a_row_that_the_app_writes_again_is_erased_too(world: World) -> None:
    with pytest.raises(ErasurePendingError):
        world.erasure().run()
    world.batch({ALICE: "again"})
    world.snapshot()
    completed(world)
    assert world.files_with(ALICE) == []


def test_a_change_that_a_snapshot_appends_before_the_lease_is_taken_stays_in_the_history(world: World) -> None:
    for waited_ms in STEPS_MS[:2]:
        world.clock.advance(waited_ms)
        with pytest.raises(ErasurePendingError):
            world.erasure().run()

    @contextmanager
    def upkeep() -> Iterator[None]:
        world.batch({ALICE: "again", "carol-1": "cider"})
        world.snapshot()
        yield

    world.clock.advance(RETENTION_MS)
    with pytest.raises(ErasurePendingError, match=r"still has rows of them|has written them again"):
        replace(world.erasure(), upkeep=upkeep).run()
    assert rows_at(world, world.at_ms) == {**OTHERS, ALICE: "again"}
    assert flaws(world) == []
    completed(world)
    assert world.files_with(ALICE) == []
    assert flaws(world) == []


def test_a_table_that_a_call_that_died_left_unsealed_is_proven(world: World) -> None:
    with pytest.raises(ErasurePendingError):
        world.erasure().run()
    sealed = sealed_at(world.delta / "words")
    seal = sealed.read()
    assert seal is not None
    sealed.file.write_bytes(replace(seal, writing=True).to_json())
    completed(world)
    assert world.files_with(ALICE) == []


def test_copies_that_are_not_made_anew_are_awaited(world: World) -> None:
    world.copies.awaited.append("node b doesn't answer: start it")
    for waited_ms in STEPS_MS[:2]:
        world.clock.advance(waited_ms)
        with pytest.raises(ErasurePendingError):
            world.erasure().run()
    world.clock.advance(STEPS_MS[2])
    with pytest.raises(ErasurePendingError, match="node b doesn't answer"):
        world.erasure().run()
    assert world.folder.certificate(ID) is None
    world.copies.awaited.clear()
    assert world.erasure().run()["store"] == "words"


def test_a_run_that_only_waits_commits_nothing(world: World) -> None:
    def versions() -> list[int]:
        return [DeltaTable(world.delta / name).version() for name in ("words", "words_history")]

    world.copies.awaited.append("node b doesn't answer: start it")
    for waited_ms in STEPS_MS:
        world.clock.advance(waited_ms)
        with pytest.raises(ErasurePendingError):
            world.erasure().run()
        before = versions()
        with pytest.raises(ErasurePendingError):
            world.erasure().run()
        assert versions() == before, waited_ms


def test_bytes_of_a_key_elsewhere_are_in_the_certificate(world: World) -> None:
    other = world.delta / "notes" / "of-alice.txt"
    other.parent.mkdir()
    other.write_text(f"call {ALICE}")
    assert completed(world)["found_elsewhere"] == [{"file": str(other), "values": 1}]


def test_an_unknown_erasure_names_those_that_there_are(world: World) -> None:
    for other in ("20260131T120000001Z", "../../words"):
        with pytest.raises(InvalidArgumentError, match=f"there are {ID}"):
            world.folder.plan(other)
    assert world.folder.plan(ID) == world.plan
    assert ALICE not in world.plan.as_text()


def dying(erasure: Erasure, counter: Counter) -> Erasure:
    parts: dict[str, Any] = {
        name: Dying(getattr(erasure, name), counter) for name in ("folder", "log", "tables", "copies")
    }
    calls: dict[str, Any] = {
        name: counter.dying(getattr(erasure, name)) for name in ("snapshot", "search", "holds", "forget")
    }
    return replace(erasure, **parts, **calls)


def state(world: World) -> Any:
    """What is left in the end, without numbers that depend on how many calls it took."""
    history = StoreHistory.beside(world.delta / "words")
    assert history is not None
    changes = history.changes()._table.to_pyarrow_table().to_pylist()
    places = sorted((row["_partition"], row["_offset"], row["_key"], row["_value"]) for row in changes)
    return places, rows_at(world, history.coverage.to_ms), world.erased_log.config, world.files_with(ALICE)


def test_a_call_that_dies_at_any_step_is_repeated_and_nothing_is_doubled(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = World(tmp_path / "whole")
    completed(whole)
    expected, at = state(whole), 0
    while True:
        at += 1 if request.config.getoption("--long") else 9
        world = World(tmp_path / str(at))
        counter, has_died = Counter(at), False
        for waited_ms in (*STEPS_MS, 0):
            world.clock.advance(waited_ms)
            try:
                dying(world.erasure(), counter).run()
            except DiedError:
                has_died = True
                assert rows_at(world, world.at_ms).items() >= OTHERS.items(), "the last good state answers"
            except ErasurePendingError:
                pass
        for _ in STEPS_MS:
            world.clock.advance(RETENTION_MS)
            try:
                certificate = world.erasure().run()
            except ErasurePendingError:
                continue
            break
        assert state(world) == expected, at
        assert certificate["tables"], at
        if not has_died:
            break
    assert at > 40
