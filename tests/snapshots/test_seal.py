"""Nothing builds on a table whose folder isn't exactly as it was sealed, and the message names the file."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import sha256_of
from storekeeper.snapshots import seal as seal_module
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.delta_log import VerifiedVersion
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.seal import Seal, SealedTable
from tests.snapshot_tables import manifest_of, sealed_at, write_snapshot
from tests.snapshots.attacks import ATTACKS, BEHIND_THE_ROWS, IN_THE_LOG, Attack
from tests.snapshots.test_proof import FIELDS, rows

ALL = ATTACKS | BEHIND_THE_ROWS


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A snapshot of three hundred rows behind two earlier ones."""
    path = tmp_path / "words"
    write_snapshot(path, rows(10), FIELDS)
    write_snapshot(path, rows(200), FIELDS)
    write_snapshot(path, rows(300)[200:], FIELDS, mode="append", manifest=manifest_of(rows(300)))
    return path


def proven(path: Path) -> VerifiedVersion | None:
    """What the next writer builds on."""
    return sealed_at(path).to_build_on(lambda version: check_proven(path, version, StoreValues(FIELDS)))


def unproven(_: VerifiedVersion) -> None:
    pytest.fail("there is nothing to prove")


@pytest.mark.parametrize("whole", [False, True])
def test_a_table_as_it_was_sealed_is_built_on_without_a_look_at_its_rows(table: Path, whole: bool) -> None:
    seal = sealed_at(table).current(whole=whole)
    assert seal is not None
    assert seal.verified is not None
    assert (seal.version, seal.verified.manifest.delta_version, seal.writing) == (2, 2, False)
    assert seal.files.keys() == {str(file.relative_to(table)) for file in table.rglob("*") if file.is_file()}
    assert sealed_at(table).to_build_on(unproven) == seal.verified


@pytest.mark.parametrize("attack", ALL.values(), ids=ALL.keys())
def test_every_change_is_refused_by_the_name_of_a_file(table: Path, attack: Attack) -> None:
    attack(table)
    for whole in (False, True):
        with pytest.raises(SnapshotDamagedError) as raised:
            sealed_at(table).current(whole=whole)
        message = str(raised.value)
        assert re.match(r"table words (isn't as it was sealed at version 2: \S+ (was|is)|is gone from)", message)
        assert "word " not in message, "no value of a row is shown"
        assert "card-" not in message, "no key is shown"
    with pytest.raises(SnapshotDamagedError), sealed_at(table).writing():
        pytest.fail("nothing is written to it")


def test_a_table_that_is_gone_is_missed_and_may_be_begun_anew_on_purpose(table: Path) -> None:
    shutil.rmtree(table)
    with pytest.raises(SnapshotDamagedError, match=r"is gone from .*words: it was sealed at version 2.*remove .*json"):
        sealed_at(table).to_build_on(unproven)
    sealed_at(table).file.unlink(missing_ok=True)
    assert sealed_at(table).to_build_on(unproven) is None


def test_many_files_are_counted(table: Path) -> None:
    for number in range(5):
        (table / f"left-{number}").write_bytes(b"")
    with pytest.raises(SnapshotDamagedError, match=r"left-0 was added, left-1 was added, left-2 was added and 2 more"):
        sealed_at(table).current()


def test_a_table_without_a_seal_is_refused_whatever_it_holds(table: Path) -> None:
    sealed_at(table).file.unlink(missing_ok=True)
    with pytest.raises(SnapshotDamagedError, match=r"table words has no seal at .*words.json"):
        sealed_at(table).to_build_on(unproven)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"sha256":"","seal":{}}', "flip", "version", "manifest"])
def test_a_damaged_seal_is_told_as_one(table: Path, damage: bytes | str) -> None:
    file = sealed_at(table).file
    text = file.read_bytes()
    edits = {
        "flip": text.replace(b'"made_ns":1', b'"made_ns":2', 1),
        "version": text.replace(b'"version":2', b'"version":1', 1),
        "manifest": text.replace(b'"generation":1', b'"generation":7', 1),
    }
    content = damage if isinstance(damage, bytes) else edits[damage]
    assert content != text
    file.write_bytes(content)
    with pytest.raises(SnapshotDamagedError, match=r"table words has a damaged seal, .*words.json"):
        sealed_at(table).current()


def test_a_files_time_spares_its_reading_once_it_is_old_enough(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(file: Path) -> str:
        read.append(file.name)
        return sha256_of(file)

    monkeypatch.setattr(seal_module, "sha256_of", counted)
    files = len([file for file in table.rglob("*") if file.is_file()])
    sealed_at(table).current()
    assert len(read) == files, "a file as new as the seal may have changed in the same tick of the clock"

    seal = sealed_at(table).read()
    assert seal is not None
    aged(sealed_at(table), seal)
    read.clear()
    sealed_at(table).current()
    assert read == []
    sealed_at(table).current(whole=True)
    assert len(read) == files

    read.clear()
    write_snapshot(table, rows(301)[300:], FIELDS, mode="append", manifest=manifest_of(rows(301)))
    assert len(read) == 2, "the new commit and its file; the others are known"

    (table / "_delta_log" / f"{0:020}.json").chmod(0o600)
    with_mode = sealed_at(table).current()
    assert with_mode is not None, "another time alone is no difference"


def test_a_writer_reads_a_file_once_however_often_it_compares_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last writer's files were too new for their times to count when it sealed them."""
    read: list[str] = []

    def counted(file: Path) -> str:
        read.append(file.name)
        return sha256_of(file)

    monkeypatch.setattr(seal_module, "sha256_of", counted)
    monkeypatch.setattr(seal_module, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + 10**10))
    files = len([file for file in table.rglob("*") if file.is_file()])
    sealed = sealed_at(table)
    sealed.to_build_on(unproven)
    with sealed.writing():
        DeltaTable(table).delete("_offset = 3")
    assert len(read) == files + 2, "the new commit and its file are read too"
    sealed.current(whole=True)
    assert len(read) == 2 * (files + 2), "whole is whole"


def aged(sealed: SealedTable, seal: Seal) -> None:
    """Makes a seal of files that had been there for long."""
    sealed.file.write_bytes(replace(seal, made_ns=seal.made_ns + 10**10).to_json())


def test_an_edit_of_the_same_size_is_found_though_the_seal_is_old(table: Path) -> None:
    seal = sealed_at(table).read()
    assert seal is not None
    aged(sealed_at(table), seal)
    BEHIND_THE_ROWS["a bit of the same size and time"](table)
    with pytest.raises(SnapshotDamagedError, match="was changed"):
        sealed_at(table).current()


def test_another_size_is_a_difference_of_its_own(table: Path) -> None:
    """A store of objects may tell times by the second."""
    seal = sealed_at(table).read()
    assert seal is not None
    name, sealed = next(iter(seal.files.items()))
    aged(sealed_at(table), replace(seal, files={**seal.files, name: replace(sealed, size=sealed.size + 1)}))
    with pytest.raises(SnapshotDamagedError, match=f"{re.escape(name)} was changed"):
        sealed_at(table).current()


class Died(BaseException):
    """The writer's process ended."""


def died_before_its_seal(path: Path) -> None:
    """A snapshot that was committed by a writer who could not seal it."""
    seal = sealed_at(path).read()
    assert seal is not None
    write_snapshot(path, rows(301)[300:], FIELDS, mode="append", manifest=manifest_of(rows(301)))
    sealed_at(path).file.write_bytes(replace(seal, writing=True).to_json())


def test_a_writer_that_dies_before_its_seal_leaves_a_table_that_is_proven_and_sealed(table: Path) -> None:
    died_before_its_seal(table)
    seal = sealed_at(table).current(whole=True)
    assert seal is not None
    assert (seal.version, seal.writing) == (2, True), "readers go on with the version before"
    with pytest.raises(SnapshotDamagedError, match="left by its last writer"), sealed_at(table).writing():
        pytest.fail("who can't prove it doesn't write")
    found = proven(table)
    assert found is not None
    assert found.version == 3
    assert sealed_at(table).to_build_on(unproven) == found


@pytest.mark.parametrize("attack", [attack for name, attack in ATTACKS.items() if name not in IN_THE_LOG])
def test_a_change_behind_a_dead_writer_is_found_by_the_proof(table: Path, attack: Attack) -> None:
    died_before_its_seal(table)
    attack(table)
    with pytest.raises(SnapshotDamagedError):
        proven(table)


@pytest.mark.parametrize("attack", ["an older copy", "an emptied folder"])
def test_a_dead_writer_is_no_excuse_for_an_older_copy(table: Path, attack: str) -> None:
    seal = sealed_at(table).read()
    assert seal is not None
    sealed_at(table).file.write_bytes(replace(seal, writing=True).to_json())
    BEHIND_THE_ROWS[attack](table)
    with pytest.raises(SnapshotDamagedError, match="sealed at version 2"):
        proven(table)


def test_a_change_of_a_sealed_file_is_found_behind_a_dead_writers_mark(table: Path) -> None:
    died_before_its_seal(table)
    BEHIND_THE_ROWS["a bit of the same size and time"](table)
    with pytest.raises(SnapshotDamagedError, match="was changed"):
        sealed_at(table).current()


def test_the_mark_is_durable_before_a_commit_and_the_seal_behind_it(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, folder = list[str](), str(sealed_at(table).file.parent)
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink())))
    with sealed_at(table).writing():
        before = len(synced)
        assert synced[-1] == folder
    assert len(synced) == 2 * before
    assert synced[before:] == synced[:before]


def test_a_writer_that_commits_nothing_leaves_the_seal_as_it_was(table: Path) -> None:
    before = sealed_at(table).file.read_bytes()
    seen: list[bytes] = []
    with suppress(Died), sealed_at(table).writing():
        seen.append(sealed_at(table).file.read_bytes())
        raise Died
    assert seen != [before]
    assert sealed_at(table).file.read_bytes() == before


def test_a_commit_of_another_program_beside_ours_is_not_sealed(table: Path) -> None:
    def both() -> None:
        with sealed_at(table).writing(3):
            DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
            DeltaTable(table).delete("_partition = 1")

    with pytest.raises(SnapshotDamagedError, match="while it was written: it has version 4, not 3"):
        both()
    with pytest.raises(SnapshotDamagedError, match="is damaged at version 4"):
        proven(table)


def test_a_reader_beside_a_writer_sees_one_of_the_two_versions(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = sealed_at(table)
    read, turns = SealedTable.read, iter([True])

    def then_written(sealed: SealedTable) -> Seal | None:
        seal = read(sealed)
        if sealed is reader and next(turns, False):
            write_snapshot(table, rows(301)[300:], FIELDS, mode="append", manifest=manifest_of(rows(301)))
        return seal

    monkeypatch.setattr(SealedTable, "read", then_written)
    seal = reader.current()
    assert seal is not None
    assert seal.version == 3


def test_the_first_seal_is_that_of_no_version(tmp_path: Path) -> None:
    sealed = sealed_at(tmp_path / "words")
    assert sealed.current() is None
    with suppress(Died), sealed.writing(0):
        raise Died
    assert sealed.to_build_on(unproven) is None
    with suppress(Died), sealed.writing(0):
        (tmp_path / "words" / "_delta_log").mkdir(parents=True)
        (tmp_path / "words" / "part").write_bytes(b"")
        raise Died
    assert sealed.to_build_on(unproven) is None
    write_snapshot(tmp_path / "words", rows(3), FIELDS)
    assert proven(tmp_path / "words") is not None
