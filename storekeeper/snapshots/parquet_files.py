"""The data files of a Delta table, read by Arrow in the caller's thread alone.

Arrow's reader of whole tables reads ahead in threads of its own, through a file system in Python. Such a thread aborts
the process if it still closes a file when the process ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storekeeper.locations import location

_BATCH_ROWS = 16_384


def opened_files(table: DeltaTable) -> Iterator[pq.ParquetFile]:
    """The data files of a version, one after the other, each with its end read.

    Raises:
        OSError, ArrowException: one is missing or damaged.
    """
    for uri in table.file_uris():
        place = location(uri)
        source = str(place) if isinstance(place, Path) else pa.BufferReader(place.read_bytes())
        with pq.ParquetFile(source, pre_buffer=False) as file:
            yield file


def decode(table: DeltaTable) -> None:
    """Reads every column of a version once.

    Raises:
        OSError, ArrowException: a file is missing or damaged.
    """
    for file in opened_files(table):
        for _ in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            pass
