"""The folder of one store's clean-ups: a folder for each, with its plan, its archive and its last report.

The rows that a clean-up deletes, kept for an undo: one Parquet file a partition.

A local file is readable by its owner alone. In a store, its rules decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storekeeper.changelog.log_record import LogRecord
from storekeeper.cleanup.cleanup_plan import CleanupPlan
from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.locations import Location, entries, write_in_one_step

_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)
_BATCH_ROWS = 10_000
_BEGUN = "begun-ms"
_ARCHIVED = re.compile(r"\.?archive-.*\.parquet")
"""Also matches what a crash left of a file that was being written; in HDFS its name begins with a dot."""


class Archive:
    """The archive of one clean-up, in its folder."""

    def __init__(self, folder: Location) -> None:
        self._folder = folder

    def put(self, partition: int, records: Sequence[LogRecord]) -> None:
        """Writes a partition's rows, whole and in one step, replacing earlier ones.

        They are durable when it returns, because the caller deletes them from the changelog then.
        """
        content = pa.BufferOutputStream()
        with pq.ParquetWriter(content, _SCHEMA, compression="zstd") as writer:
            for start in range(0, len(records), _BATCH_ROWS):
                writer.write_batch(_batch(records[start : start + _BATCH_ROWS]))
        write_in_one_step(self._file(partition), content.getvalue().to_pybytes(), private=True, durable=True)

    def begin(self, now_ms: int) -> None:
        """Records when the archive was begun, unless that is recorded already."""
        if self.begun_ms is None:
            write_in_one_step(self._folder / _BEGUN, str(now_ms).encode(), private=True, durable=True)

    @property
    def begun_ms(self) -> int | None:
        """When it was begun, in epoch milliseconds; None if it never was."""
        try:
            return int((self._folder / _BEGUN).read_bytes())
        except FileNotFoundError:
            return None

    def rows(self, partition: int) -> Iterator[LogRecord]:
        """A partition's rows, by offset.

        Raises:
            StorageError: there is no such file, it can't be read, or its store does not answer.
        """
        path = self._file(partition)
        try:
            with pq.ParquetFile(path if isinstance(path, Path) else pa.BufferReader(path.read_bytes())) as file:
                for batch in file.iter_batches(_BATCH_ROWS):
                    yield from map(_record, batch.to_pylist())
        except FileNotFoundError as error:
            msg = "this clean-up has no archived rows: it has not been run, or they were deleted as too old for an undo"
            raise StorageError(msg) from error
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"the archive {path} can't be read ({error}): restore it from a backup") from error

    def keys(self, partition: int) -> set[bytes]:
        """A partition's keys."""
        return {record.key for record in self.rows(partition) if record.key is not None}

    def exists(self, partition: int) -> bool:
        """Whether the partition's file is there."""
        return self._file(partition).exists()

    def forget(self) -> int:
        """Deletes the files; returns how many."""
        files = [file for file in entries(self._folder) if _ARCHIVED.match(file.name)]
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    def _file(self, partition: int) -> Location:
        return self._folder / f"archive-{partition:05d}.parquet"


def _batch(records: Sequence[LogRecord]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": record.key,
                "value": record.value,
                "headers": [{"name": name, "value": value} for name, value in record.headers],
            }
            for record in records
        ],
        schema=_SCHEMA,
    )


def _record(row: dict[str, object]) -> LogRecord:
    headers = [(header["name"], header["value"]) for header in row.pop("headers")]  # type: ignore[attr-defined]
    return LogRecord(**row, headers=headers)  # type: ignore[arg-type]


class CleanupFolder:
    """The clean-ups of one store, as files."""

    def __init__(self, path: Location, store: str) -> None:
        self._path = path
        self._store = store

    def put_plan(self, plan: CleanupPlan) -> None:
        """Keeps the plan of a new clean-up."""
        write_in_one_step(self._path / plan.cleanup_id / "plan.json", plan.to_json(), private=True)

    def plan(self, cleanup_id: str) -> CleanupPlan:
        """The plan of a clean-up.

        Raises:
            InvalidArgumentError: there is none of that id.
        """
        plans = self._plans()
        if cleanup_id not in plans:
            known = ", ".join(plans) or "none"
            raise InvalidArgumentError(f"store {self._store} has no clean-up {cleanup_id[:100]!r}: there are {known}")
        return CleanupPlan.from_json(plans[cleanup_id].read_bytes())

    def plans(self) -> list[CleanupPlan]:
        """The plans of all clean-ups, the oldest first."""
        return [CleanupPlan.from_json(file.read_bytes()) for file in self._plans().values()]

    def archive(self, plan: CleanupPlan) -> Archive:
        """The archive of a clean-up, which may be empty."""
        return Archive(self._path / plan.cleanup_id)

    def put_report(self, cleanup_id: str, report: bytes) -> None:
        """Keeps the last report on a clean-up."""
        write_in_one_step(self._path / cleanup_id / "report.json", report, private=True)

    def undo_until_ms(self, plan: CleanupPlan) -> int | None:
        """Until when a clean-up can be undone, in epoch milliseconds; None if it has no archive yet."""
        begun_ms = self.archive(plan).begun_ms
        return None if begun_ms is None else begun_ms + plan.undo_ms

    def forget_old(self, now_ms: int) -> list[str]:
        """Deletes the archives of clean-ups that can't be undone at `now_ms`. Returns their ids, the oldest first."""
        forgotten = []
        for plan in self.plans():
            until_ms = self.undo_until_ms(plan)
            if until_ms is not None and now_ms >= until_ms and self.archive(plan).forget():
                forgotten.append(plan.cleanup_id)
        return forgotten

    def _plans(self) -> dict[str, Location]:
        """The files of all plans by the ids of their clean-ups, the oldest first."""
        files = {folder.name: folder / "plan.json" for folder in entries(self._path)}
        return {cleanup_id: files[cleanup_id] for cleanup_id in sorted(files) if files[cleanup_id].exists()}
