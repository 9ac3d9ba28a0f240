"""The quality gate's tables are as its last decision left them. What others append is its next batch."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from storekeeper.errors import SnapshotDamagedError
from storekeeper.snapshots.gated_seal import GatedTable
from tests.snapshot_tables import manifest_of, write_snapshot
from tests.snapshots.attacks import ATTACKS, BEHIND_THE_ROWS, Attack, edited, file_cut, file_lost, log_cut
from tests.snapshots.test_history import killed
from tests.snapshots.test_history_model import KilledError
from tests.snapshots.test_proof import FIELDS, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words"
    write_snapshot(path, rows(10), FIELDS)
    write_snapshot(path, rows(200), FIELDS)
    write_snapshot(path, rows(300)[200:], FIELDS, mode="append", manifest=manifest_of(rows(300)))
    return path


def gated(path: Path, *, shared: bool) -> GatedTable:
    return GatedTable(path, path.parent / "gated" / f"{path.name}.json", shared=shared)


def append(path: Path) -> None:
    write_deltalake(path, pa.table(DeltaTable(path).to_pyarrow_table()).slice(0, 1), mode="append")


ALL = {name: attack for name, attack in (ATTACKS | BEHIND_THE_ROWS).items() if name != "a file beside the table's"}
"""All but what a writer that failed leaves too."""


@pytest.mark.parametrize("attack", ALL.values(), ids=ALL.keys())
def test_whatever_another_program_does_to_a_published_table_is_named(path: Path, attack: Attack) -> None:
    table = gated(path, shared=False)
    table.sealed()
    attack(path)
    for whole in (False, True):
        with pytest.raises(SnapshotDamagedError) as raised:
            table.current(whole=whole)
        message = str(raised.value)
        assert re.match(r"table words (isn't as it was sealed at version 2: \S+ (was|is)|is gone from)", message)
        assert "word " not in message, "no value of a row is shown"
        assert str(table.file) in message, "a change on purpose can be accepted"
    with pytest.raises(SnapshotDamagedError), table.writing():
        pytest.fail("nothing is written to it")


def older(path: Path) -> None:
    """The first two versions alone."""
    last = path / "_delta_log" / f"{2:020}.json"
    last.unlink()


def log_edited(path: Path) -> None:
    """The sealed version shows one file less; its own commit is as it was."""
    first = path / "_delta_log" / f"{1:020}.json"
    first.write_text("".join(line for line in first.read_text().splitlines(keepends=True) if '"add"' not in line))


def checkpoint_forged(path: Path) -> None:
    """A checkpoint of the sealed version that shows one file less."""
    DeltaTable(path).create_checkpoint()
    (file,) = (path / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(file)
    added = pc.indices_nonzero(actions["add"].is_valid()).to_pylist()
    pq.write_table(actions.take([row for row in range(actions.num_rows) if row != added[-1]]), file)


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (edited("Word", "evil"), r".*parquet was changed"),
        (file_lost, r"\S+parquet is gone"),
        (file_cut, r"\S+parquet was changed"),
        (log_cut(0.5), r"_delta_log/0+2\.json was changed"),
        (older, r"_delta_log/0+2\.json is gone"),
        (log_edited, r"_delta_log/0+1\.json was changed"),
        (checkpoint_forged, "_delta_log was changed"),
        (shutil.rmtree, "gone from"),
    ],
)
def test_what_was_decided_on_may_not_change_in_a_staged_table(path: Path, attack: Attack, named: str) -> None:
    table = gated(path, shared=True)
    table.seal_version(2)
    attack(path)
    with pytest.raises(SnapshotDamagedError, match=rf"table words (is|isn't as it was sealed at version 2:) {named}"):
        table.current()


def test_others_may_append_to_a_staged_table_and_join_its_files(path: Path) -> None:
    table = gated(path, shared=True)
    append(path)
    table.seal_version(2)
    append(path)
    assert table.current() is not None
    DeltaTable(path).optimize.compact()
    assert table.current(whole=True) is not None
    table.seal_version(DeltaTable(path).version())
    DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert table.current(whole=True) is not None


def test_a_log_that_lost_its_old_commits_behind_a_checkpoint_is_as_it_was(path: Path) -> None:
    table = gated(path, shared=True)
    DeltaTable(path).create_checkpoint()
    table.seal_version(2)
    for old in (0, 1):
        (path / "_delta_log" / f"{old:020}.json").unlink()
    seal = table.current(whole=True)
    assert seal is not None
    assert (seal.version, seal.writing) == (2, False)


def test_a_gate_that_dies_before_it_can_seal_leaves_a_table_that_the_next_takes_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = gated(path, shared=False)
    with monkeypatch.context() as patch:
        patch.setattr(GatedTable, "_made", killed)
        with pytest.raises(KilledError), table.writing():
            append(path)
    assert table.current() is not None, "readers see a seal that is being written"
    table.take_over()
    seal = table.current()
    assert seal is not None
    assert (seal.version, seal.writing) == (3, False)
    append(path)
    with pytest.raises(SnapshotDamagedError, match=r"0+4\.json was added by WRITE"):
        table.take_over()


def test_a_table_without_a_seal_is_taken_as_it_is(path: Path) -> None:
    table = gated(path, shared=False)
    assert table.current() is None
    table.take_over()
    with table.writing():
        append(path)
    seal = table.current()
    assert seal is not None
    assert seal.version == 3
    table.file.unlink(missing_ok=True)
    append(path)
    assert table.current() is None
