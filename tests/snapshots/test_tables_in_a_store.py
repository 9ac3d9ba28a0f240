"""Snapshots in an S3 store: found, proven, restored, kept up and queried as in a folder, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from harness.storage.place import frozen, is_asked
from harness.storage.s3 import S3
from harness.waiting import eventually
from storekeeper.delta_files import is_table
from storekeeper.errors import InvalidArgumentError, SnapshotDamagedError, TablesUnreachableError
from storekeeper.locations import (
    Location,
    RemoteFolder,
    delete_tree,
    entries,
    files_below,
    location,
    sha256_of,
    write_in_one_step,
)
from storekeeper.program import ExitCode, exit_code_of
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.delta_log import delta_table, newest_manifest, open_table
from storekeeper.snapshots.sql import list_tables, query
from storekeeper.snapshots.table_restore import last_snapshot, restore_snapshot
from storekeeper.snapshots.table_upkeep import HOUR_MS, keep_up
from tests.snapshot_tables import manifest_of, rows_in, sealed_at, sealed_manifest, write_snapshot
from tests.snapshots.test_proof import FIELDS, flaws, rows

LONG = pytest.mark.long("test_sql.py, test_table_restore.py and test_table_upkeep.py have them in a folder")


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    if not S3.is_fetched():
        pytest.skip("the S3 server is not there: run `make setup-storage`")
    started = S3()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        started.start()
        yield started
        started.close()


@pytest.fixture
def root(store: S3, request: pytest.FixtureRequest) -> Location:
    """A folder of tables of the test's own."""
    found = location(store.uri) / re.sub(r"\W", "_", request.node.name)
    assert isinstance(found, RemoteFolder)
    return found


@pytest.fixture
def table(root: Location) -> Location:
    write_snapshot(root / "words", rows(20), FIELDS)
    return root / "words"


def test_a_folder_lists_its_tables_and_files(root: Location, table: Location) -> None:
    assert list_tables(root) == ("words",)
    assert list_tables(root / "none") == ()
    assert (is_table(table), is_table(root / "other")) == (True, False)
    with pytest.raises(TableNotFoundError):
        delta_table(root / "none")
    log = table / "_delta_log"
    assert [file.name for file in log.iterdir()] == [f"{0:020}.json"]
    assert (log.is_dir(), (log / f"{0:020}.json").exists(), (log / f"{1:020}.json").exists()) == (True, True, False)
    with pytest.raises(FileNotFoundError):
        (log / f"{1:020}.json").read_bytes()


@LONG
def test_a_snapshot_is_vouched_for_proven_and_loaded(table: Location) -> None:
    manifest = sealed_manifest(table)
    assert manifest is not None
    assert flaws(table) == ()
    assert len(rows_in(table, manifest)) == 20


@LONG
def test_a_change_by_another_program_is_found_and_undone(table: Location) -> None:
    open_directly(table).update(updates={"_offset": "_offset + 1"})
    with pytest.raises(SnapshotDamagedError, match=r"0+1.json was added by UPDATE"):
        sealed_at(table).current()
    manifest = last_snapshot(sealed_at(table))
    assert manifest is not None
    assert restore_snapshot(sealed_at(table), manifest, StoreValues(FIELDS)) == 2
    assert flaws(table) == ()


def test_a_snapshot_of_a_new_generation_takes_the_table_over_and_is_restored(table: Location) -> None:
    columns = (ValueField("Count", "bigint"),)
    held = [row._replace(value=b'{"Count":%d}' % number) for number, row in enumerate(rows(30))]
    manifest = manifest_of(held, generation=2, changelog_topic="words-log-g2", delta_version=1)
    write_snapshot(table, held, columns, manifest=manifest)
    assert sealed_manifest(table) == manifest
    open_directly(table).delete("Count > 3")
    assert newest_manifest(table) == manifest
    assert restore_snapshot(sealed_at(table), manifest, StoreValues(columns)) == 3
    assert len(rows_in(table, replace(manifest, delta_version=3))) == 30
    assert open_table(table, 0).to_pyarrow_table().num_rows == 20


@LONG
def test_small_files_are_joined_and_old_ones_removed(table: Location) -> None:
    for end in range(30, 110, 10):
        write_snapshot(table, rows(end)[end - 10 :], FIELDS, mode="append", manifest=manifest_of(rows(end)))
    done = keep_up(sealed_at(table), [], now_ms=HOUR_MS * 10**6, history_ms=HOUR_MS)
    assert done is not None
    assert done.files < done.files_before
    assert flaws(table) == ()


@LONG
def test_sql_reads_the_present_and_the_past(root: Location, table: Location) -> None:
    write_snapshot(table, rows(30)[20:], FIELDS, mode="append", manifest=manifest_of(rows(30)))
    assert query(root, "SELECT count(*) FROM words").rows == ((30,),)
    assert query(root, "SELECT count(*) FROM words", at_version={"words": 0}).rows == ((20,),)
    with pytest.raises(InvalidArgumentError, match="there are: words"):
        query(root, "SELECT * FROM phrases")


def test_a_store_that_is_away_is_said_to_be_and_nothing_is_said_to_be_damaged(
    store: S3, root: Location, table: Location
) -> None:
    store.go_away()
    try:
        for reading in (
            lambda: sealed_manifest(table),
            lambda: flaws(table),
            lambda: query(root, "SELECT count(*) FROM words"),
        ):
            with pytest.raises(TablesUnreachableError, match=r"Connection refused.*then repeat") as raised:
                reading()
            assert exit_code_of(raised.value) is ExitCode.TRY_AGAIN
            assert store.environment["AWS_SECRET_ACCESS_KEY"] not in str(raised.value)
    finally:
        store.start()
    assert flaws(table) == ()


USES: dict[str, Callable[[Location], object]] = {
    "proves": flaws,
    "lists": lambda table: entries(table.parent),
    "lists all": files_below,
    "reads": lambda table: sha256_of(table.parent / "seals" / "words.json"),
    "writes": lambda table: write_in_one_step(table.parent / "note", b"x", durable=True),
    "deletes": lambda table: delete_tree(table.parent / "other"),
}


@pytest.mark.parametrize("use", USES)
def test_a_store_that_freezes_holds_its_user_up_and_no_other_thread(store: S3, table: Location, use: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with frozen(store):
            waiting = pool.submit(USES[use], table)
            eventually(lambda: is_asked(store, [psutil.Process()]), 120, "the store is asked")
            assert not waiting.done()
        waiting.result()


def open_directly(table: Location) -> DeltaTable:
    return DeltaTable(str(table))
