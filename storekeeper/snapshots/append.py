"""Appending to a history what its changelog has got since, up to the exact end of a batch. Each record once.

The offsets are in the commit, so a run that dies leaves nothing behind, and the next one reads the same again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.scan import Changelog
from storekeeper.collector import collector_off
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.errors import ChangelogError
from storekeeper.locations import reaching
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.columns import StoreValues, derived_columns
from storekeeper.snapshots.history import (
    CHANGE_COLUMNS,
    PARTITIONED_BY,
    HistoryManifest,
    TaskProgress,
    history_schema,
    newest_history,
)
from storekeeper.snapshots.new_changes import NewChanges
from storekeeper.snapshots.table_writer import TableWriter, take_back

_READING_MS = 3_600_000
"""Time to read a changelog in, while its cleaner goes on; and how old tombstones of an unfinished batch may be."""
_CLOCKS_MS = 10_000
"""By how much the clocks of a driver and of this job may differ."""


@dataclass(frozen=True)
class Appending:
    """One run. It began at `now_ms`, before it reads anything.

    Attributes:
        store: the store, in the live generation of its app.
        entry: its history.
        log: its changelog.
        values: its values.
        planned: reads the app's newest planned batch by generation.
        tombstones_ms: how long the changelog keeps deletions.
        now_ms: the time.
        changelog_id: the broker's id of the changelog.
        live_from: the batch from which the generation is live without a break.
        progress: that of the app's tasks after the batch.
    """

    store: StoreSpec
    entry: Entry
    log: Changelog
    values: StoreValues
    planned: Callable[[], Mapping[int, int]]
    tombstones_ms: int
    now_ms: int
    changelog_id: str = ""
    live_from: int = 0
    progress: TaskProgress = field(default_factory=dict)

    @collector_off()
    def upto(self, batch: CommittedBatch, *, floor_ms: int = 0) -> HistoryManifest:
        """Appends all up to and with a batch; the manifest of the newest version.

        Args:
            batch: the batch.
            floor_ms: where there is no history: the last time that others know the store's rows of; 0 for none.

        Raises:
            ChangelogError: the changelog does not go on where the history ends.
            SnapshotDamagedError: another program has written to the history.
            StorageError: it can't be written.
        """
        take_back(self.entry)
        found, writer = newest_history(self.entry.path), TableWriter(self.entry, [PARTITIONED_BY])
        before = None if found is None else found.manifest
        ends = {at: self.log.committed(at) for at in self.log.partitions}
        known = before is not None and before.changelog_topic == self.log.topic
        columns = self.values.following(before.columns if before is not None and known else {})
        if before is not None and columns != before.columns:
            before = self._with_columns(writer, before, columns)
        first = {at: start for at, (start, _) in ends.items()}
        goes_on = (
            before is not None
            and known
            and before.live_from == self.live_from  # else readers have read another generation meanwhile
            and self.now_ms - before.read_at_ms < self.tombstones_ms - _READING_MS
        )
        earliest_ms = floor_ms + 1 if floor_ms else 0
        if before is not None:
            # A clean-up's record may be later than the last batch. No change of an era before may be within this one.
            earliest_ms = (before.exact_to_ms if goes_on else max(before.exact_to_ms, before.read_at_ms)) + 1
            if known:
                self._check_goes_on(before, ends)
        planned, latest_ms = self.planned(), max(batch.at_ms, earliest_ms)
        if before is not None and goes_on:
            idle = planned.get(batch.generation, -1) == batch.batch_id
            # A batch that is planned from now on is later than this; what a clean-up has written since is, too.
            until_ms = self.now_ms - _CLOCKS_MS if idle else 0
            latest_ms = max(until_ms, before.exact_to_ms if _same_batch(before, batch) else latest_ms)
        elif batch.at_ms < earliest_ms:
            latest_ms = max(self.now_ms, earliest_ms)  # when another changelog took over
        begins_anew = not goes_on and earliest_ms > 0
        changes = NewChanges(
            log=self.log,
            batch=batch,
            planned=planned,
            ends={at: end for at, (_, end) in ends.items()},
            first={} if goes_on else dict(first),
            offsets=first | dict(before.changelog_offsets) if goes_on and before is not None else first,
            totals=dict(before.totals) if goes_on and before is not None else {},
            earliest_ms=latest_ms if begins_anew else earliest_ms,
            latest_ms=latest_ms,
            until_ms=max(self.now_ms, latest_ms, earliest_ms),
        )
        with tempfile.TemporaryDirectory() as scratch:
            spilled = Path(scratch, "changes")
            schema = history_schema(columns)
            _spill(spilled, changes.rows(columns, self.values.reader()), schema)
            if before is not None and goes_on and not changes.count and latest_ms == before.exact_to_ms:
                return before
            manifest = self._manifest(before, changes, columns, goes_on=goes_on)
            writer.write(_spilled(spilled), schema, manifest.to_json(), mode="append")
        return manifest

    def _with_columns(
        self, writer: TableWriter, before: HistoryManifest, columns: Mapping[str, str]
    ) -> HistoryManifest:
        """Derives the columns of all rows anew: an old row may have the new field already."""
        assert writer.table is not None  # noqa: S101 (for the type checker)
        read, schema = self.values.reader(), history_schema(columns)
        own = list(CHANGE_COLUMNS)
        with reaching(self.entry.path):
            batches = pa.RecordBatchReader.from_stream(writer.table.scan(columns=own))
        rows = (
            pa.record_batch(
                [*derived_columns(batch["_value"].to_pylist(), columns, read), *batch.select(own).columns],
                names=schema.names,
            ).cast(schema)
            for batch in batches
        )
        manifest = replace(before, columns=columns)
        with tempfile.TemporaryDirectory() as scratch:
            _spill(spilled := Path(scratch, "history"), rows, schema)
            writer.write(_spilled(spilled), schema, manifest.to_json(), mode="overwrite")
        return manifest

    def _check_goes_on(self, before: HistoryManifest, ends: Mapping[int, tuple[int, int]]) -> None:
        """Lets only the changelog pass that the history is of: the tables may be the last copy of a lost one."""
        if before.changelog_id != self.changelog_id:
            msg = (
                f"changelog {self.log.topic} was deleted and recreated since the last snapshot of {self.store.name}, "
                f"whose tables keep the rows. Go on from them: `storekeeper generation plan {self.store.app} --from "
                f"tables`. If the new topic is right, move the tables {self.store.name} and {self.entry.path.name} and "
                "their seals away, then take a snapshot"
            )
            raise ChangelogError(msg)
        for partition, reached in before.changelog_offsets.items():
            first, end = ends.get(partition, (0, -1))
            if not first <= reached <= end:
                msg = (
                    f"the history of {self.store.name} ends at offset {reached} of {self.log.topic} partition "
                    f"{partition}, which holds {first} to {end}: the topic was recreated or is cut off; move the "
                    f"tables {self.store.name} and {self.entry.path.name} and their seals away, then take a snapshot"
                )
                raise ChangelogError(msg)

    def _manifest(
        self, before: HistoryManifest | None, changes: NewChanges, columns: Mapping[str, str], *, goes_on: bool
    ) -> HistoryManifest:
        to_ms, batch = changes.latest_ms, changes.batch
        eras = () if before is None else before.eras
        if not goes_on:
            eras = (*eras, to_ms if changes.earliest_ms else changes.first_ms)
        gaps = [] if before is None else list(before.gaps)
        start_ms: int | None = None
        if before is not None and before.hides:
            start_ms = gaps.pop()[0]
        elif before is not None and not goes_on:
            start_ms = before.exact_to_ms + 1
        elif changes.hides:
            start_ms = max(eras[-1], changes.complete_ms + 1)
        awaited = {**(before.hides if before is not None and goes_on else {}), **changes.hides}
        hides = {at: end for at, end in awaited.items() if changes.offsets[at] < end}
        if start_ms is not None and start_ms < (end_ms := to_ms + 1 if hides else to_ms):
            gaps.append((start_ms, end_ms))
        exact_from_ms = eras[0] if before is None else before.exact_from_ms
        if gaps and gaps[0][0] <= exact_from_ms and not (hides and len(gaps) == 1):
            exact_from_ms = gaps.pop(0)[1]
        return HistoryManifest(
            store=self.store.name,
            app=self.store.app,
            kind=self.store.kind,
            changelog_topic=self.log.topic,
            generation=batch.generation,
            changelog_offsets=changes.offsets,
            source_offsets=batch.source,
            batch=batch.batch_id,
            exact_from_ms=exact_from_ms,
            exact_to_ms=to_ms,
            gaps=tuple(gaps),
            eras=eras,
            totals=changes.totals,
            columns=dict(columns),
            read_at_ms=self.now_ms,
            hides=hides,
            sorted_before="" if before is None else before.sorted_before,
            changelog_id=self.changelog_id,
            live_from=self.live_from,
            progress=self.progress,
            erased=before.erased if before is not None and goes_on else {},
        )


def _same_batch(before: HistoryManifest, batch: CommittedBatch) -> bool:
    return (before.generation, before.batch) == (batch.generation, batch.batch_id)


def _spill(path: Path, rows: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
    """Puts rows into a file: what is to be committed with them is known at their end, and `deltalake` can't read one
    table while it writes another.
    """
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as stream:
        for batch in rows:
            stream.write_batch(batch)


def _spilled(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        yield from stream
