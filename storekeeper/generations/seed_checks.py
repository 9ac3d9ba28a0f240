"""What keeps a seed from being written: rows that can't be converted or moved, and keys that would have two rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.generations.errors import GenerationRefusedError, UnconvertibleRowsError
from storekeeper.generations.seed_rows import MISPLACED
from storekeeper.locations import Location
from storekeeper.snapshots.duck import folding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_PROBLEMS = 3
_PROBLEMS = "SELECT store, problem, count(*) FROM checked WHERE problem IS NOT NULL GROUP BY store, problem"
_DOUBLED = """
SELECT store, count(*) FROM (SELECT store FROM checked GROUP BY store, partition, key HAVING count(*) > 1)
GROUP BY store
"""


@dataclass(frozen=True, slots=True)
class SeedCheck:
    """Looks at all rows of a seed before the first is written.

    Attributes:
        number: the new generation.
        changed: the stores whose rows are converted, or may move. The keys of others are as distinct as they were.
    """

    number: int
    changed: Collection[str]

    def of_frame(self, rows: DataFrame) -> None:
        """Checks rows of `ROWS`.

        Raises:
            UnconvertibleRowsError: rows can't be converted.
            GenerationRefusedError: rows can't move, or a key would have several.
        """
        problems = rows.where(F.col("problem").isNotNull()).groupBy("store", "problem").count().collect()
        self._check_problems([tuple(row) for row in problems])
        changed = rows.where(F.col("store").isin(*self.changed))
        doubled = changed.groupBy("store", "partition", "key").count().where("count > 1").groupBy("store").count()
        self._check_doubled([tuple(row) for row in doubled.collect()] if self.changed else [])

    def of_batches(self, batches: Iterable[pa.RecordBatch], place: Location) -> None:
        """Checks rows of `ROWS`, those of `changed` stores; `place` is where the tables are that they come from.

        Raises:
            UnconvertibleRowsError, GenerationRefusedError: as `of_frame`.
            StorageError, TablesUnreachableError: the tables can't be read.
        """
        with folding(place) as database:
            database.execute("CREATE TEMP TABLE checked (store TEXT, partition INT, key BLOB, problem TEXT)")
            for batch in batches:
                database.register("made", pa.Table.from_batches([batch]))
                database.execute("INSERT INTO checked SELECT store, partition, key, problem FROM made")
            self._check_problems(database.sql(_PROBLEMS).fetchall())
            self._check_doubled(database.sql(_DOUBLED).fetchall())

    def _check_problems(self, problems: Sequence[tuple[str, str, int]]) -> None:
        """Refuses rows with problems: store, problem, and number."""
        if misplaced := sorted((store, count) for store, problem, count in problems if problem == MISPLACED):
            shown = " and ".join(f"{count} rows of {store}" for store, count in misplaced)
            raise GenerationRefusedError(
                f"{shown} aren't in the partition of their key: by it, tasks of other partitions wouldn't find them. "
                "Nothing was started; leave the number of partitions as it is, or retire "
                f"generation {self.number} and fill one from the input: `seed --from beginning`"
            )
        if problems:
            problems = sorted(problems, key=lambda found: (-found[2], *found[:2]))
            total = sum(count for *_, count in problems)
            stores = " and ".join(sorted({store for store, *_ in problems}))
            shown = "; ".join(f"{count} x {problem}" for _, problem, count in problems[:_SHOWN_PROBLEMS])
            raise UnconvertibleRowsError(
                f"{total} rows of {stores} can't be converted ({shown}): nothing was started; correct the "
                f"rows or the migration and seed again, or retire generation {self.number}"
            )

    def _check_doubled(self, doubled: Sequence[tuple[str, int]]) -> None:
        """Refuses stores with keys that several rows have: store, and number of keys."""
        if doubled:
            shown = " and ".join(f"{count} keys of {store}" for store, count in sorted(doubled))
            raise GenerationRefusedError(
                f"{shown} would have several rows each, of which all but one would be lost: either a migration gives "
                "rows the same key, or rows of one key come from several partitions. Nothing was started; correct the "
                f"migration and seed again, or retire generation {self.number} and fill one from the input: "
                "`seed --from beginning`"
            )
