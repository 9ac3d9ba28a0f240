"""Commits to a store's Delta tables: all or nothing, each with its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Literal

import pyarrow as pa
from deltalake import CommitProperties, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from storekeeper.delta_files import is_table
from storekeeper.locations import delete_tree, failure, reaching
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.delta_log import open_table
from storekeeper.snapshots.history import newest_history

_STATISTICS = "_partition,_offset,_timestamp_ms,_batch_ms"
"""Without this, the log would have the minimum and maximum of each column: keys may be personal data."""


class TableWriter:
    """Writes one table. Hold its lease.

    A writer that has lost its lease and doesn't know can commit nothing: each commit names the same transaction, and
    Delta refuses one that doesn't know the newest. So what a run reads before it writes is what it writes upon.
    """

    def __init__(self, entry: Entry, partition_by: Sequence[str] = ()) -> None:
        """Opens the table as it is now, if it is there."""
        self._entry = entry
        self._partition_by = list(partition_by)
        self.table = open_table(entry.path) if is_table(entry.path) else None

    @property
    def next_version(self) -> int:
        """The version that the next commit makes."""
        return 0 if self.table is None else self.table.version() + 1

    def write(
        self,
        rows: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        manifest: str,
        *,
        mode: Literal["append", "overwrite"],
        where: str | None = None,
    ) -> None:
        """Commits rows: appends them, or replaces all, or those that a predicate names.

        Earlier versions stay readable. Where all rows are replaced, so are the columns.

        Raises:
            StorageError: the table can't be written, or another run has written it meanwhile.
            TablesUnreachableError: its store doesn't answer.
        """
        path, version = self._entry.path, self.next_version
        commit = CommitProperties(
            custom_metadata={"userMetadata": manifest}, app_transactions=[Transaction(self._entry.lease, version)]
        )
        anew = self.table is not None and mode == "overwrite" and where is None
        reader = pa.RecordBatchReader.from_batches(self._commented(schema), rows)
        try:
            with reaching(path), nullcontext() if self._entry.sealed is None else self._entry.sealed.writing(version):
                write_deltalake(  # type: ignore[misc]
                    str(path) if self.table is None else self.table,
                    reader,
                    mode="error" if self.table is None else mode,  # type: ignore[arg-type]
                    schema_mode="overwrite" if anew else None,
                    partition_by=self._partition_by or None,
                    predicate=where,
                    description=self._entry.meaning,
                    configuration={"delta.dataSkippingStatsColumns": _STATISTICS},
                    writer_properties=WriterProperties(compression="ZSTD"),
                    commit_properties=commit,
                )
        except (DeltaError, OSError) as error:
            msg = f"table {path.name} can't be written ({error}): repeat; nothing was left half done"
            raise failure(path, error, msg) from error
        self.table = open_table(path)

    def _commented(self, schema: pa.Schema) -> pa.Schema:
        """The columns with what they hold. A field that is gone may have kept its column, and keeps its comment."""
        fields = () if self.table is None else self.table.schema().fields
        comments = {item.name: item.metadata["comment"] for item in fields if "comment" in item.metadata}
        comments |= self._entry.columns
        return pa.schema(
            item.with_metadata({"comment": comments[item.name]}) if item.name in comments else item for item in schema
        )


def take_back(entry: Entry) -> None:
    """Takes a history back to what was sealed, if the last writer died before it could seal its commit.

    Nobody has built on such a commit, and the next run makes it again.

    Raises:
        SnapshotDamagedError: the history isn't as it was sealed.
        StorageError: it can't be written.
    """
    sealed, path = entry.sealed, entry.path
    seal = None if sealed is None else sealed.current()
    if sealed is None or seal is None or not seal.writing:
        return
    try:
        with reaching(path):
            if seal.version is None:
                delete_tree(path)
            elif (table := open_table(path)).version() > seal.version:
                found = newest_history(path, at=seal.version)
                manifest = "" if found is None else found.manifest.to_json()
                table.restore(seal.version, commit_properties=CommitProperties({"userMetadata": manifest}))
    except (DeltaError, OSError) as error:
        msg = f"table {path.name} can't be written ({error}): repeat; nothing was left half done"
        raise failure(path, error, msg) from error
    sealed.sealed()
