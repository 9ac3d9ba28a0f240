from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from storekeeper.apps.settings import SnapshotSettings
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.errors import SerializationError, SnapshotDamagedError, StorageError
from storekeeper.snapshots import table_upkeep
from storekeeper.snapshots.table_upkeep import (
    HOUR_MS,
    forget_versions,
    keep_up,
    kept_versions,
    optimized,
    promised_versions,
)
from tests.snapshot_tables import manifest_of, rows_in, rows_of, sealed_at, sealed_manifest, write_snapshot
from tests.snapshots.played_log import STORE, PlayedLog, PlayedStore, batch_of

LATER_MS = 10**14
"""So far ahead that all of a table is old."""


def snapshots(path: Path, count: int) -> None:
    """Version `n` holds `n` + 1 rows, one a file, with the manifest of a snapshot."""
    rows = rows_of({b"key-%d" % number: b"value" for number in range(count)})
    for version, row in enumerate(rows):
        write_snapshot(path, [row], mode="append", manifest=manifest_of(rows[: version + 1]))


def rows_at(path: Path, version: int) -> int:
    return DeltaTable(str(path), version=version).to_pyarrow_table().num_rows


def test_the_newest_snapshot_and_promised_versions_survive_though_all_is_old(tmp_path: Path) -> None:
    snapshots(tmp_path, 12)
    first = keep_up(sealed_at(tmp_path), [4], now_ms=LATER_MS, history_ms=HOUR_MS)
    assert first is not None
    assert (first.files_before, first.files, first.version) == (12, 1, first.version_before + 1)
    second = keep_up(sealed_at(tmp_path), [4], now_ms=LATER_MS, history_ms=HOUR_MS)
    assert second is not None
    assert {4, 11} <= set(second.kept_versions)
    manifest = sealed_manifest(tmp_path)
    assert manifest is not None
    assert manifest.delta_version == 11
    assert len(rows_in(tmp_path, manifest)) == 12
    assert rows_at(tmp_path, 4) == 5


def test_files_that_no_promise_needs_are_removed_and_only_those(tmp_path: Path) -> None:
    snapshots(tmp_path, 10)
    with sealed_at(tmp_path).writing():
        DeltaTable(str(tmp_path)).optimize.compact()
    newest = write_snapshot(tmp_path, rows_of({b"a": b"1"}))
    done = keep_up(sealed_at(tmp_path), [2], now_ms=LATER_MS, history_ms=0)
    assert done is not None
    assert done.vacuumed_files == 8  # the joined one, and all whose rows came behind the promised version, but the last
    assert rows_at(tmp_path, 2) == 3
    found = sealed_manifest(tmp_path)
    assert found is not None
    assert found.digests == newest.digests
    assert rows_in(tmp_path, found) == {b"a": b"1"}


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> bool:
        raise OSError("input/output error")

    snapshots(tmp_path, 2)
    monkeypatch.setattr(table_upkeep, "has_only", away)
    with pytest.raises(StorageError, match=r"can't be maintained \(input/output error\): check the table"):
        forget_versions(sealed_at(tmp_path))


def test_nothing_is_removed_from_a_table_that_something_else_wrote_to(tmp_path: Path) -> None:
    snapshots(tmp_path, 10)
    write_deltalake(tmp_path, DeltaTable(str(tmp_path)).to_pyarrow_table().slice(0, 1), mode="overwrite")
    with pytest.raises(
        SnapshotDamagedError, match=r"isn.t as it was sealed at version 9: _delta_log/0+10.json was added by WRITE"
    ):
        keep_up(sealed_at(tmp_path), [], now_ms=LATER_MS, history_ms=0)
    assert rows_at(tmp_path, 9) == 10


def test_a_joined_file_says_nothing_of_keys_in_the_log(tmp_path: Path) -> None:
    snapshots(tmp_path, 9)
    keep_up(sealed_at(tmp_path), [], now_ms=LATER_MS, history_ms=HOUR_MS)
    newest = max((tmp_path / "_delta_log").glob("*.json"))
    assert "OPTIMIZE" in newest.read_text()
    assert "_key" not in newest.read_text()


def test_versions_are_kept_by_age_by_snapshot_and_by_promise() -> None:
    history = [{"version": version, "timestamp": version * HOUR_MS} for version in range(20)]
    kept = kept_versions(history, [1, 99], snapshot=7, now_ms=19 * HOUR_MS, history_ms=3 * HOUR_MS)
    assert kept == [1, 7, 15, 16, 17, 18, 19]


def test_promises_are_read_until_they_end_and_a_broken_one_stops_everything(tmp_path: Path) -> None:
    (tmp_path / "seed.json").write_text('{"version": 3, "until_ms": null}')
    (tmp_path / "report.json").write_text('{"version": 5, "until_ms": 100}')
    assert promised_versions(tmp_path, now_ms=99) == [5, 3]
    assert promised_versions(tmp_path, now_ms=100) == [3]
    assert promised_versions(tmp_path / "none", now_ms=0) == []
    (tmp_path / "z.json").write_text("{}")
    with pytest.raises(SerializationError, match="not a promise"):
        promised_versions(tmp_path, now_ms=0)


def test_a_table_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    assert keep_up(sealed_at(tmp_path / "nothing"), [], now_ms=0, history_ms=0) is None


def test_a_history_keeps_the_deletions_that_its_table_does_not_know_yet(tmp_path: Path) -> None:
    began_ms = SystemClock().now_ms() - 9 * DAY_MS
    played = PlayedStore(tmp_path / "delta", PlayedLog("log-1"), now_ms=began_ms, tombstones_ms=99 * DAY_MS)
    batches: list[dict[str, str | None]] = [{"a": "ale", "b": "bread"}, {"a": None}, {"b": "beer"}, {"b": "bun"}]
    for number, changes in enumerate(batches):
        played.now_ms += DAY_MS
        played.log.batch(number, played.now_ms, changes)
        history = played.append(batch_of(1, number, played.now_ms), number)
        if not number:
            played.fold(history)
    optimized("words", lambda _: STORE, SnapshotSettings(run_dir=tmp_path, history_days=1))
    assert played.flaws() == []
    played.fold(history)
    assert DeltaTable(tmp_path / "delta" / "words").to_pyarrow_table()["Word"].to_pylist() == ["bun"]


def test_a_run_that_died_before_it_sealed_the_table_is_repeated(tmp_path: Path) -> None:
    now_ms = SystemClock().now_ms() - HOUR_MS
    played = PlayedStore(tmp_path / "delta", PlayedLog("log-1"), now_ms=now_ms)
    played.log.batch(0, now_ms, {"a": "ale", "b": "bread"})
    played.take(batch_of(1, 0, now_ms), 0)
    sealed = sealed_at(tmp_path / "delta" / "words")
    before = sealed.read()
    assert before is not None
    DeltaTable(tmp_path / "delta" / "words").optimize.compact()
    sealed.file.write_bytes(replace(before, writing=True).to_json())
    done = optimized("words", lambda _: STORE, SnapshotSettings(run_dir=tmp_path))
    assert done["table"] == "words"
    seal = sealed.current()
    assert seal is not None
    assert not seal.writing
    assert played.flaws() == []
