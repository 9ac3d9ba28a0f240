"""Going back to the last snapshot, from every attack that leaves its files as they were."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from storekeeper.errors import SnapshotDamagedError
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.table_restore import last_snapshot, restore_snapshot
from tests.snapshot_tables import manifest_of, sealed_at, write_snapshot
from tests.snapshots.attacks import ATTACKS, BEHIND_THE_ROWS
from tests.snapshots.test_proof import FIELDS, flaws, rows, shown

UNDONE = [
    "UPDATE of one row",
    "UPDATE of all rows",
    "DELETE of a partition",
    "DELETE of all rows",
    "INSERT",
    "overwrite",
    "removal without data change",
    "an added column",
    "a dropped column",
    "a renamed column",
    "a column of another type",
]
NOT_UNDONE = ["a typed column edited in the file", "a lost file", "a cut file", "a torn log"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A snapshot in one file."""
    path = tmp_path / "words"
    write_snapshot(path, rows(20), FIELDS)
    return path


def restored(path: Path) -> int | None:
    manifest = last_snapshot(sealed_at(path))
    assert manifest is not None
    return restore_snapshot(sealed_at(path), manifest, StoreValues(FIELDS))


@pytest.mark.parametrize("attack", UNDONE)
def test_a_table_that_something_else_wrote_to_shows_its_last_snapshot_again(table: Path, attack: str) -> None:
    before = shown(table)
    ATTACKS[attack](table)
    assert flaws(table)
    version = restored(table)
    assert version == DeltaTable(table).version()
    assert flaws(table) == ()
    assert shown(table) == before
    assert restored(table) is None, "it is sound"


def test_a_lost_commit_leads_back_to_the_snapshot_before(table: Path) -> None:
    before = shown(table)
    write_snapshot(table, rows(30)[20:], FIELDS, mode="append", manifest=manifest_of(rows(30)))
    ATTACKS["the log cut to nothing"](table)
    assert flaws(table)
    assert restored(table) == 2
    assert flaws(table) == ()
    assert shown(table) == before


@pytest.mark.parametrize("attack", NOT_UNDONE)
def test_a_snapshot_whose_own_files_are_damaged_is_left_as_it_is(table: Path, attack: str) -> None:
    if attack == "a torn log":
        ATTACKS["UPDATE of all rows"](table)
    ATTACKS[attack](table)
    files = sorted(path for path in table.rglob("*") if path.is_file())
    with pytest.raises(SnapshotDamagedError, match=rf"move {table} and its seal away, and write a new snapshot"):
        restored(table)
    assert sorted(path for path in table.rglob("*") if path.is_file()) == files


def test_nothing_is_restored_that_would_not_be_proven(table: Path) -> None:
    ATTACKS["a typed column edited in the file"](table)
    ATTACKS["INSERT"](table)
    with pytest.raises(SnapshotDamagedError, match=r"as it was sealed: _delta_log/0+\.json differs"):
        restored(table)
    sealed_at(table).file.unlink(missing_ok=True)
    with pytest.raises(SnapshotDamagedError, match="is damaged at version 0: column Amount"):
        restored(table)
    assert DeltaTable(table).version() == 1, "no commit was made"


def test_a_restore_that_shows_something_else_is_not_sealed(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_snapshot(table, rows(30)[20:], FIELDS, mode="append", manifest=manifest_of(rows(30)))
    ATTACKS["INSERT"](table)
    restore, sealed = DeltaTable.restore, sealed_at(table).file.read_bytes()
    monkeypatch.setattr(DeltaTable, "restore", lambda shown, _, **options: restore(shown, 0, **options))
    with pytest.raises(SnapshotDamagedError, match="is damaged at version 3"):
        restored(table)
    assert sealed_at(table).file.read_bytes() == sealed


@pytest.mark.parametrize("attack", BEHIND_THE_ROWS)
def test_what_a_restored_table_says_of_itself_is_as_it_was_sealed_or_it_is_refused(table: Path, attack: str) -> None:
    write_snapshot(table, rows(30)[20:], FIELDS, mode="append", manifest=manifest_of(rows(30)))
    told = facts(table)
    BEHIND_THE_ROWS[attack](table)
    try:
        restored(table)
    except (SnapshotDamagedError, AssertionError):
        return
    assert sealed_at(table).differences() == []
    assert flaws(table) == ()
    assert facts(table) in (told, {**told, "rows": 20}), "those of this snapshot, or of the one before"


def facts(path: Path) -> dict[str, object]:
    """What programs take from the log, and the rows that a reader finds that trusts it."""
    table = DeltaTable(path)
    found = table.to_pyarrow_dataset().to_table(filter=pc.field("_offset") >= 0)
    return {"properties": table.metadata().configuration, "protocol": table.protocol(), "rows": found.num_rows}


def test_a_table_without_a_seal_is_proven_and_sealed(table: Path) -> None:
    sealed_at(table).file.write_bytes(b"{")
    assert restored(table) is None
    assert flaws(table) == ()
