"""The keys that a generation has forgotten and the one before it has not.

A clean-up deletes rows of the store, and not what the app's own state remembers of them. A generation that is seeded
afterwards begins without: it is how compute state is purged. If such a key comes again before the hand-over, the old
generation goes on from the total that it had, and the new one from nothing; so the comparison must know them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from state.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOLDER = "purged"


def note_purged(gone: Sequence[DataFrame], generation_dir: Path) -> int:
    """Writes down which keys the clean-ups of changelogs have deleted; how many there are.

    Only those count whose archives are still there. What is noted already is written anew.

    Args:
        gone: the `gone_rows` of each store of which any were deleted.
        generation_dir: of the generation that is seeded from that.
    """
    path = str(generation_dir / _FOLDER)
    shutil.rmtree(path, ignore_errors=True)
    if not gone:
        return 0
    keys = [rows.select("_key") for rows in gone]
    reduce(lambda one, other: one.unionAll(other), keys).coalesce(1).write.parquet(path)
    return gone[0].sparkSession.read.parquet(path).count()


def gone_rows(rows: DataFrame, files: Sequence[Path]) -> DataFrame:
    """What was deleted of a store and is not there again, each key once: columns `_key` and `_value`.

    Args:
        rows: what is left of the store, with the column `_key`.
        files: the archives of what was deleted; at least one.
    """
    archived = rows.sparkSession.read.parquet(*map(str, files)).selectExpr("key as _key", "value as _value")
    return archived.dropDuplicates(["_key"]).join(rows, "_key", "left_anti")


def purged_keys(generation_dir: Path) -> frozenset[bytes]:
    """The keys that were noted for a generation.

    Raises:
        StorageError: they can't be read.
    """
    try:
        found = [pq.read_table(path).column("_key").to_pylist() for path in generation_dir.glob(f"{_FOLDER}/*.parquet")]
    except (OSError, pa.ArrowException) as error:
        msg = f"the keys that {generation_dir} has forgotten can't be read: retire that generation, then seed again"
        raise StorageError(msg) from error
    return frozenset(key for keys in found for key in keys)
