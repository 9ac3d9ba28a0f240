"""Reads of the past in a long history: `make bench-as_of`.

DuckDB makes a history as upkeep leaves it: 30 days, each sorted by key, with changes of random customers in batches of
a minute. Read are what a random key had at a random time, as a node answers it; the rows of a time as a whole, by SQL;
and a point-in-time join of random keys and times with what became of them, by SQL. SQL has as much memory as it has for
users: a read that needs more is named, and not measured.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, WriterProperties, write_deltalake

from benchmarks.results import Measure, write_results
from storekeeper.changelog.position import Position
from storekeeper.clock import DAY_MS
from storekeeper.errors import InvalidArgumentError
from storekeeper.snapshots.as_of import changes_between_keys, rows_of_key
from storekeeper.snapshots.history import PARTITIONED_BY, HistoryManifest, history_of, history_schema
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.sql import query
from storekeeper.stores.store_definitions import ServedKind

DAYS = 30
PARTITIONS = 4
FIRST_DAY = date(2026, 1, 1)
FIRST_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
COLUMNS = {"TotalLoyaltyPoints": "decimal(18,4)", "InvoiceCount": "bigint"}
_BATCHES_A_DAY = 24 * 60
_BATCH_ROWS = 65_536

_CHANGES = """
WITH numbered AS (SELECT i, hash(i) % {keys} AS card FROM range({first}, {end}) AS numbers(i)),
    placed AS (SELECT *, ({day_ms} + (i - {first}) * {batches} // {count} * 60000)::BIGINT AS _batch_ms FROM numbered)
SELECT ((i % 10000000)::DECIMAL(18,4) / 100)::DECIMAL(18,4) AS TotalLoyaltyPoints, (i % 50)::BIGINT AS InvoiceCount,
    encode(printf('%010d', card)) AS _key,
    encode(printf('{{"TotalLoyaltyPoints":%d.5,"InvoiceCount":%d}}', i % 100000, i % 50)) AS _value,
    (card % {partitions})::INTEGER AS _partition, i::BIGINT AS _offset, _batch_ms - 5 AS _timestamp_ms,
    1::INTEGER AS _schema_version, 1::INTEGER AS _generation, (_batch_ms // 60000)::BIGINT AS _batch, _batch_ms,
    DATE '{day}' AS _day
FROM placed ORDER BY _key, _offset
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is: changes, keys, and points of a join."""

    changes: int
    keys: int
    points: int


def make(table: Path, size: Size) -> None:
    """Writes the history beside a table."""
    schema, per_day = history_schema(COLUMNS), size.changes // DAYS
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect(config={"temp_directory": scratch}) as connection:
        for number in range(DAYS):
            day, day_ms = FIRST_DAY + timedelta(number), FIRST_MS + number * DAY_MS
            sql = _CHANGES.format(
                keys=size.keys, first=number * per_day, end=(number + 1) * per_day, count=per_day, day_ms=day_ms,
                batches=_BATCHES_A_DAY, partitions=PARTITIONS, day=day,
            )  # fmt: skip
            batches = connection.sql(sql).to_arrow_reader(_BATCH_ROWS)
            write_deltalake(
                str(history_of(table)),
                pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in batches)),
                mode="append",
                partition_by=[PARTITIONED_BY],
                configuration={"delta.dataSkippingStatsColumns": "_partition,_offset,_timestamp_ms,_batch_ms"},
                writer_properties=WriterProperties(compression="ZSTD"),
                commit_properties=CommitProperties(custom_metadata={"userMetadata": _manifest(day_ms).to_json()}),
            )


def _manifest(day_ms: int) -> HistoryManifest:
    return HistoryManifest(
        store="rewards",
        app="bench",
        kind=ServedKind.KEY_VALUE,
        changelog_topic="rewards-changelog",
        generation=1,
        changelog_offsets=dict.fromkeys(range(PARTITIONS), 1 << 40),
        source_offsets=Position({}),
        batch=1,
        exact_from_ms=FIRST_MS,
        exact_to_ms=day_ms + DAY_MS - 1,
        gaps=(),
        eras=(FIRST_MS,),
        totals={},
        columns=COLUMNS,
        read_at_ms=day_ms + DAY_MS,
    )


class Past:
    """Reads of a history."""

    def __init__(self, table: Path, size: Size) -> None:
        history = StoreHistory.beside(table)
        assert history is not None
        self._history, self._table, self._size = history, table, size
        self._drawn = random.Random(1)

    def key(self) -> None:
        """What a key had."""
        start, stop = rows_of_key(ServedKind.KEY_VALUE, b"%010d" % self._drawn.randrange(self._size.keys))
        self._history.folded(("_key", "_value"), self._time(), changes_between_keys(start, stop))

    def rows(self) -> None:
        """All rows of a time."""
        asked = "SELECT count(*), sum(TotalLoyaltyPoints) FROM rewards"
        ((count, _),) = query(self._table.parent, asked, as_of_ms=self._time()).rows
        assert count

    def join(self) -> None:
        """What keys had at times of their own."""
        count = self._size.points
        keys = [f"{self._drawn.randrange(self._size.keys):010d}" for _ in range(count)]
        times = pa.array([self._time() * 1000 for _ in range(count)], pa.timestamp("us", "UTC"))
        labels = pa.table({"key": keys, "at": times})
        asked = (
            "SELECT count(*), count(c.InvoiceCount) FROM labels l "
            "ASOF LEFT JOIN rewards_changes_of((SELECT list(key) FROM labels)) c "
            "ON l.key = c.key AND l.at >= c.changed_at"
        )
        ((found, known),) = query(self._table.parent, asked, tables={"labels": labels}).rows
        assert found == count
        assert known

    def _time(self) -> int:
        return FIRST_MS + self._drawn.randrange(DAY_MS, DAYS * DAY_MS - 1)


def timed(read: Callable[[], None], runs: int) -> Sequence[float]:
    """Seconds of each run; none if SQL has too little memory."""
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        try:
            read()
        except InvalidArgumentError as error:
            print(f"not measured: {error}", flush=True)
            return []
        found.append(time.perf_counter() - began)
    return found


def main() -> None:
    """Makes the history, reads it, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    size, runs = Size(arguments.changes, arguments.keys, arguments.points), arguments.runs
    if arguments.smoke:
        size, runs = Size(30_000, 500, 100), 1
    folder = Path(tempfile.mkdtemp(prefix="bench-as-of-"))
    try:
        make(folder / "rewards", size)
        past = Past(folder / "rewards", size)
        of = f"{size.changes / 1e6:g} million changes"
        read: dict[str, tuple[Callable[[], None], int]] = {
            f"what a key had at a time, {of}": (past.key, 10 * runs),
            f"the rows of a time, {of}": (past.rows, runs),
            f"point-in-time join of {size.points:,} points, {of}": (past.join, runs),
        }
        measures = []
        for name, (work, times) in read.items():
            if found := timed(work, times):
                print(f"{name}: {', '.join(f'{one:.3f}' for one in found)} s", flush=True)
                measures.append(Measure(name, "s", found, higher_is_better=False))
    finally:
        shutil.rmtree(folder)
    if not arguments.smoke:
        print(write_results("as_of", measures, {"changes": size.changes, "keys": size.keys, "points": size.points}))


if __name__ == "__main__":
    main()
