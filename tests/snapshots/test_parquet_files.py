"""Processes that read a table's files end in order, whatever they met."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from storekeeper.snapshots.parquet_files import opened_files

_READS = """
import sys
from pathlib import Path
from storekeeper.errors import SnapshotDamagedError
from storekeeper.snapshots.columns import snapshot_schema
from storekeeper.snapshots.proof import read_rows

try:
    print(sum(batch.num_rows for batch in read_rows(Path(sys.argv[1]), 9, snapshot_schema({}))))
except SnapshotDamagedError:
    print("damaged")
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of ten files, in a folder with a space in its name."""
    path = tmp_path_factory.mktemp("of files") / "the words"
    count = 5_000
    for _ in range(10):
        rows = {
            "_partition": pa.array([0] * count, pa.int32()),
            "_offset": range(count),
            "_timestamp_ms": range(count),
            "_key": [b"key"] * count,
            "_value": [os.urandom(50) for _ in range(count)],
        }
        write_deltalake(path, pa.table(rows), mode="append")
    return path


def read(table: Path) -> str:
    """What a process says that reads a table, and then ends."""
    command = [sys.executable, "-c", _READS, str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_process_that_has_read_all_files_ends_in_order(table: Path) -> None:
    assert read(table) == "50000"


def test_a_process_that_met_a_damaged_file_ends_in_order(table: Path) -> None:
    """Threads that read the other files ahead would crash it, or keep it for ever."""
    first = table / DeltaTable(table).get_add_actions()["path"].to_pylist()[0]
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2])
    try:
        assert read(table) == "damaged"
    finally:
        first.write_bytes(content)


def test_each_file_is_opened_once(table: Path) -> None:
    assert [file.metadata.num_rows for file in opened_files(table, DeltaTable(table))] == [5_000] * 10
