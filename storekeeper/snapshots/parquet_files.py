"""The data files of a Delta table, read by Arrow in the caller's thread alone.

Arrow's reader of whole tables reads ahead in threads of its own, through a file system in Python. Such a thread aborts
the process if it still closes a file when the process ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storekeeper.locations import Location, files_below

_BATCH_ROWS = 16_384


def opened_files(path: Location, table: DeltaTable) -> Iterator[pq.ParquetFile]:
    """The data files of a version of the table at `path`, one after the other, each with its end read.

    Raises:
        OSError, ArrowException: one is missing or damaged.
        TablesUnreachableError: the store of the table doesn't answer.
    """
    for name in _names(table):
        place = path / name
        source = str(place) if isinstance(place, Path) else pa.BufferReader(place.read_bytes())
        with pq.ParquetFile(source, pre_buffer=False) as file:
            yield file


def has_only(path: Location, *versions: DeltaTable) -> bool:
    """Whether the table at `path` has no data file but those of some of its versions."""
    there = {name for name in files_below(path) if not name.startswith("_delta_log/")}
    return there <= {name for version in versions for name in _names(version)}


def _names(table: DeltaTable) -> Iterator[str]:
    return map(unquote, table.get_add_actions()["path"].to_pylist())  # the Delta log has them encoded like URIs


def decode(path: Location, table: DeltaTable) -> None:
    """Reads every column of a version of the table at `path` once. Raises as `opened_files` does."""
    for file in opened_files(path, table):
        for _ in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            pass
