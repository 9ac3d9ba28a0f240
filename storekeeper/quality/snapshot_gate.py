"""The gate of a store's snapshots: each is judged where it is, and readers can be pinned to the last good one.

A batch is one snapshot. Nothing is published: `storekeeper sql --at <store>=good` reads the newest version that passed
or was released. It needs no Spark: DuckDB reads the table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from storekeeper.apps.checked_table import CheckedTable, WithTable
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import Clock
from storekeeper.generations.live import store_in
from storekeeper.locations import reaching
from storekeeper.quality.errors import StagedTableError
from storekeeper.quality.gate import Batch, PublishAs
from storekeeper.quality.profile import drifted
from storekeeper.quality.reconciliation import compare, other_is_gone
from storekeeper.quality.resolution import ResolutionArchive, good_versions
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.store_table import growing_fields, store_as_written, table_of
from storekeeper.quality.verdict import Outcome, Profile, Status, Verdict, VerdictArchive
from storekeeper.snapshots.damage import delta_table
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.verified_version import newest_snapshot

if TYPE_CHECKING:
    from storekeeper.quality.snapshot_rows import SnapshotRows

TakeSnapshot = Callable[[tuple[Outcome, ...], int, Profile], Verdict | None]
"""Decides by the outcomes, the number of rows and the profile of a snapshot."""


class SnapshotGate:
    """Decides on the snapshots of one store of one run directory. Hold its lease: one gate at a time."""

    def __init__(self, store: StoreSpec, settings: QualitySettings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._path = settings.delta_table(store.table_name)
        self._archive = VerdictArchive(settings.verdict_dir(store.name))
        self._resolutions = ResolutionArchive(settings.resolution_dir(store.name))

    def pending(self) -> Batch | None:
        """The newest snapshot, unless it was decided on; None if there is none. A recreated table is checked again.

        Raises:
            SnapshotDamagedError: the table isn't as its newest snapshot left it.
        """
        manifest = newest_snapshot(self._path)
        if manifest is None:
            return None
        version = manifest.delta_version
        if version < self._archive.last_version():
            self._archive.forget()
            self._resolutions.forget()
        return None if version == self._archive.last_version() else Batch(version, version)

    def last_verdict(self) -> Verdict | None:
        """The newest verdict; None if there is none."""
        return self._archive.last()

    def decide(self, batch: Batch) -> Verdict:
        """Checks the snapshot.

        Raises:
            ValidationError: it couldn't be evaluated; nothing was decided.
            StagedTableError: the version can't be read any more.
        """
        taken: list[Verdict] = []

        def take(outcomes: tuple[Outcome, ...], rows: int, profile: Profile) -> Verdict:
            passed = all(outcome.passed for outcome in outcomes)
            status = Status.PASSED if passed else Status.QUARANTINED
            at_ms, version = self._clock.now_ms(), batch.last_version
            verdict = Verdict(self._store.name, status, version, version, rows, at_ms, outcomes, profile)
            self._archive.put(verdict)
            taken.append(verdict)
            return verdict

        self._check(batch, take, self._settings.data_docs_dir(self._store.name))
        return taken[0]

    def check_again(self, batch: Batch, publish_as: PublishAs) -> tuple[Outcome, ...]:
        """Checks a snapshot that was decided on before, leaving verdict and Data Docs as they are.

        Raises:
            ValidationError, StagedTableError: as `decide` does.
        """
        found: list[Outcome] = []

        def take(outcomes: tuple[Outcome, ...], rows: int, profile: Profile) -> None:
            del rows, profile
            found.extend(outcomes)
            publish_as(outcomes)

        self._check(batch, take, None)
        return tuple(found)

    def metadata_of(self, publisher: str) -> bytes | None:
        """None: a snapshot is never published, so a decision on it is kept in its file alone."""
        del publisher
        return None

    def _check(self, batch: Batch, take: TakeSnapshot, docs_dir: Path | None) -> None:
        # Great Expectations takes seconds to import: import it only for a batch.
        from storekeeper.quality.checkpoint import Afterwards, run_checkpoint  # noqa: PLC0415
        from storekeeper.quality.snapshot_rows import SnapshotRows  # noqa: PLC0415
        from storekeeper.quality.suite import CheckedFrame, for_pandas, suite_of  # noqa: PLC0415

        manifest = newest_manifest(self._path, before=batch.last_version + 1)
        if manifest is None or manifest.delta_version != batch.last_version:
            msg = f"{self._path} has no snapshot of version {batch.last_version} any more: decide on a newer one"
            raise StagedTableError(msg)
        store = store_as_written(store_in(manifest, self._store, self._settings), manifest)
        table, before = table_of(store), self._compared_with(manifest)
        growing = growing_fields(store, before)
        version_before = None if before is None else before.delta_version
        with SnapshotRows.opened(self._path, table, batch.last_version, version_before, growing) as rows:
            frame, profile = rows.measured(), rows.profile()
            beside = (
                *self._compared(rows, table),
                *drifted(self._archive, batch.first_version, profile, self._settings.quality_drift_limit),
            )
            checked = CheckedFrame(list(frame.columns), frozenset(c.name for c in table.columns), for_pandas)

            def decided(outcomes: tuple[Outcome, ...]) -> Verdict | None:
                return take(outcomes + beside, len(frame), profile)

            notify = None if docs_dir is None else table.notify
            run_checkpoint(frame, suite_of(table, checked, growing), Afterwards(decided, docs_dir, notify))

    def _compared_with(self, newest: SnapshotManifest) -> SnapshotManifest | None:
        """The snapshot to compare with for `only_grows`: the last good one before `newest`, or else the previous one.

        A good one that can't be read any more or has another changelog topic is left out. None: there is none, it is
        empty, or it has another changelog topic.
        """
        good = good_versions(self._archive, self._resolutions)
        found = self._readable(next((version for version in good if version < newest.delta_version), None))
        if found is None or found.changelog_topic != newest.changelog_topic:
            found = newest_manifest(self._path, before=newest.delta_version)
        alike = found is not None and found.row_count > 0 and found.changelog_topic == newest.changelog_topic
        return found if alike else None

    def _readable(self, version: int | None) -> SnapshotManifest | None:
        """The manifest of a version's snapshot; None if the log or a file of it is gone."""
        if version is None:
            return None
        found = newest_manifest(self._path, before=version + 1)
        with suppress(DeltaError, OSError), reaching(self._path):
            delta_table(self._path, version).to_pyarrow_dataset().count_rows()  # looks at each file's end
            return found if found is not None and found.delta_version == version else None
        return None

    def _compared(self, rows: SnapshotRows, table: CheckedTable) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for rule in table.reconcile if self._settings.quality_reconcile else ():
            if isinstance(rule, WithTable):
                expected = rows.totals_of_other(self._settings.delta_table(rule.table), rule)
                outcomes += other_is_gone(rule) if expected is None else compare(rule, expected, rows.totals(rule))
        return outcomes
