"""Making the seed of a generation: a verified snapshot of the live one, taken back to version 1, as a folder of files.

The folder is complete or not there. It is never changed, and stays for as long as its generation lives: Spark looks for
it at every start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.generations.catalog import chain_of, seed_rules, settings_of, stores_of
from spark_apps.generations.errors import (
    GenerationPendingError,
    GenerationRefusedError,
    NotesGoneError,
    UnconvertibleRowsError,
)
from spark_apps.generations.journal import Generation, Journal
from spark_apps.generations.migration import Chain
from spark_apps.generations.purged import gone_rows, note_purged
from spark_apps.generations.seed_rules import SeedRules
from spark_apps.settings import AppSettings
from spark_apps.snapshot.cut import CommittedBatch
from spark_apps.snapshot.job import Snapshot, snapshot_session
from spark_apps.snapshot.table import SnapshotTable
from spark_apps.spec import AppSpec, StoreSpec
from spark_apps.stream import SEED, SEED_STATE, SEED_STORE
from spark_apps.topics import Topics
from state.changelog.position import Position
from state.clock import Clock
from state.maintenance.archive import archive_files
from state.maintenance.kafka_log import Changelog
from state.maintenance.snapshot_copies import SnapshotCopies
from state.maintenance.verification import verify_copies
from state.snapshots.vouched import VouchedVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEED_FILES = 4
_PROBLEM = "problem"
_TRIES = 20
_PAUSE_S = 0.1
_SHOWN_PROBLEMS = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed that is complete: where the input goes on after it, how many rows it has, and how many were purged."""

    start: Position
    rows: int
    purged: int


def make_seed(spec: AppSpec, settings: AppSettings, journal: Journal, number: int, clock: Clock) -> Seed:
    """Writes the seed of a planned generation; an earlier attempt's is written anew. The live generation runs on.

    Raises:
        UnconvertibleRowsError: rows of the live generation can't be converted.
        GenerationPendingError: the live generation has not finished a batch yet.
        BrokerUnavailableError, AppRunningError: it can't be made now.
    """
    stores = stores_of(spec, journal.live_generation)
    with snapshot_session(stores, settings, clock) as spark:
        return _Seeding(spark, spec, settings, journal, journal.generation(number)).make()


@dataclass(frozen=True, slots=True)
class _Seeding:
    spark: SparkSession
    spec: AppSpec
    settings: AppSettings
    journal: Journal
    generation: Generation

    def make(self) -> Seed:
        rules, live = seed_rules(self.spec), self.journal.live_generation
        settings, stores = settings_of(self.settings, live), stores_of(self.spec, live)
        batch, notes = self._pinned(rules, settings)
        snapshots = {store: self._snapshot(settings, store, batch) for store in stores}
        own = settings_of(self.settings, self.generation)
        gone = self._gone(snapshots)
        purged = note_purged(list(gone.values()), own.generation_dir(self.spec.name))
        if purged:
            self._forget(rules, gone)
        seed = reduce(
            DataFrame.unionAll,
            (self._seed_of(live.own_store(store.name), rows, rules) for store, rows in snapshots.items()),
        ).persist()
        try:
            self._refuse_problems(seed)
            count = self._written(seed.where(F.col(_PROBLEM).isNull()).drop(_PROBLEM))
        finally:
            seed.unpersist()
        rules.begin(own.checkpoint_dir(self.spec.name), notes)
        _log.info("seeded", app=self.spec.name, generation=self.generation.number, rows=count, purged=purged)
        return Seed(batch.source, count, purged)

    def _seed_of(self, store: str, rows: DataFrame, rules: SeedRules) -> DataFrame:
        """What rows of one of the app's own stores become, or what is wrong with them."""
        live = self.journal.live_generation
        back, there = (chain_of(names).of(store) for names in (live.migrations, self.generation.migrations))
        made = rows.mapInArrow(
            partial(seed_rows, back=back, there=there, rules=rules), f"{rules.ddl}, {_PROBLEM} string"
        )
        return made.withColumn(SEED_STORE, F.lit(store))

    def _pinned(self, rules: SeedRules, settings: AppSettings) -> tuple[CommittedBatch, Any]:
        """A finished batch, and what the app noted at its end."""
        checkpoint = SparkCheckpoint(settings.checkpoint_dir(self.spec.name))
        gone: NotesGoneError | None = None
        for _ in range(_TRIES):
            batch = CommittedBatch.of(checkpoint, settings.generation)
            if batch is None:
                break
            try:
                notes = rules.notes(checkpoint.path, batch.batch_id)
                self._keep_state(rules, checkpoint.path, batch.batch_id)
            except NotesGoneError as error:
                gone = error
                time.sleep(_PAUSE_S)
            else:
                return batch, notes
        why = "it has no finished batch: let it run first" if gone is None else f"{gone}: see the log, and try again"
        msg = f"generation {settings.generation} of {self.spec.name} can't be seeded from now: {why}"
        raise GenerationPendingError(msg) from gone

    def _keep_state(self, rules: SeedRules, checkpoint_dir: Path, batch_id: int) -> None:
        """Writes down the app's own state after the batch, before Spark lets it go.

        Raises:
            NotesGoneError: Spark has.
        """
        if rules.state is None:
            return
        folder = settings_of(self.settings, self.generation).generation_dir(self.spec.name) / SEED_STATE
        shutil.rmtree(folder, ignore_errors=True)
        try:
            rules.state(self.spark, checkpoint_dir, batch_id).write.parquet(str(folder))
        except (PySparkException, Py4JError) as error:
            _log.warning("state_not_read", app=self.spec.name, batch_id=batch_id, error=type(error).__name__)
            msg = f"the state after batch {batch_id} can't be read any more"
            raise NotesGoneError(msg) from error

    def _snapshot(self, settings: AppSettings, store: StoreSpec, batch: CommittedBatch) -> DataFrame:
        """The rows of the store at the end of that batch, verified."""
        topics = Topics(settings.kafka_bootstrap)
        manifest, _ = Snapshot(self.spark, settings, store, topics).take(batch)
        table = SnapshotTable(self.spark, settings.delta_table(store.table_name), store)
        path = settings.delta_table(store.table_name)
        copies = SnapshotCopies.of(path, VouchedVersion(manifest.delta_version, manifest), store.value_fields)
        found = verify_copies(Changelog(settings.kafka_bootstrap, manifest.changelog_topic), copies.of_partition)
        reasons = (*copies.flaws, *found.reasons)
        if reasons:
            msg = (
                f"the snapshot of {store.name}, version {manifest.delta_version}, can't be seeded from: "
                f"{'; '.join(reasons[:_SHOWN_PROBLEMS])}. Find out why first: `storekeeper verify {store.name}`"
            )
            raise GenerationRefusedError(msg)
        return table.rows(manifest.delta_version).select("_key", "_value")

    def _gone(self, snapshots: Mapping[StoreSpec, DataFrame]) -> dict[str, DataFrame]:
        """What clean-ups have deleted of each store that they were run on."""
        cleanups = self.settings.run_dir / "cleanups"
        archives = {store: archive_files(cleanups / store.name, store.changelog_topic) for store in snapshots}
        return {store.name: gone_rows(snapshots[store], files) for store, files in archives.items() if files}

    def _forget(self, rules: SeedRules, gone: Mapping[str, DataFrame]) -> None:
        """Takes what goes on from deleted rows out of the app's own state, as it was written down."""
        chain = chain_of(self.journal.live_generation.migrations)
        keys = [
            rows.mapInArrow(partial(state_keys, back=chain.of(own.name), own=own), "key binary")
            for name, rows in gone.items()
            for own in [self._own_store(name)]
            if own.state_key is not None
        ]
        if rules.forget is None or not keys:
            return
        folder = settings_of(self.settings, self.generation).generation_dir(self.spec.name) / SEED_STATE
        draft = folder.with_name(f"{SEED_STATE}.new")
        shutil.rmtree(draft, ignore_errors=True)
        rules.forget(self.spark.read.parquet(str(folder)), reduce(DataFrame.unionAll, keys)).write.parquet(str(draft))
        shutil.rmtree(folder)
        draft.rename(folder)

    def _own_store(self, name: str) -> StoreSpec:
        """The app's own store that one of the live generation is, or was made of."""
        own = self.journal.live_generation.own_store(name)
        return next(store for store in self.spec.stores if store.name == own)

    def _refuse_problems(self, seed: DataFrame) -> None:
        problems = (
            seed.where(F.col(_PROBLEM).isNotNull())
            .groupBy(SEED_STORE, _PROBLEM)
            .count()
            .orderBy(F.desc("count"), SEED_STORE, _PROBLEM)
        ).collect()
        if problems:
            total = sum(row["count"] for row in problems)
            stores = " and ".join(sorted({row[SEED_STORE] for row in problems}))
            shown = "; ".join(f"{row['count']} x {row[_PROBLEM]}" for row in problems[:_SHOWN_PROBLEMS])
            msg = (
                f"{total} rows of {stores} can't be converted ({shown}): nothing was started; mend the "
                f"rows or the migration and seed again, or retire generation {self.generation.number}"
            )
            raise UnconvertibleRowsError(msg)

    def _written(self, seed: DataFrame) -> int:
        folder = settings_of(self.settings, self.generation).generation_dir(self.spec.name) / SEED
        draft = folder.with_name("seed.new")
        for leftover in (draft, folder):
            shutil.rmtree(leftover, ignore_errors=True)
        seed.coalesce(_SEED_FILES).write.parquet(str(draft))
        count = self.spark.read.parquet(str(draft)).count()
        draft.rename(folder)
        return count


def state_keys(batches: Iterator[pa.RecordBatch], *, back: Chain, own: StoreSpec) -> Iterator[pa.RecordBatch]:
    """From rows (key, value) of the live generation to the keys of the state that goes on from them."""
    assert own.state_key is not None  # noqa: S101 (asked for by `_forget`)
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        keys = [own.state_key(back.revert(key, value)[0]) for key, value in rows]
        yield pa.record_batch([pa.array(keys, pa.binary())], names=["key"])


def seed_rows(
    batches: Iterator[pa.RecordBatch], *, back: Chain, there: Chain, rules: SeedRules
) -> Iterator[pa.RecordBatch]:
    """From rows (key, value) of the live generation to rows of the seed, or to what is wrong with one.

    A row is good if it can be taken back to version 1, and from there to what the new generation will hold. What is
    wrong is told without a byte of the row.
    """
    for batch in batches:
        keys, values = (column.to_pylist() for column in batch.columns)
        rows = [_row(key, value, back, there, rules) for key, value in zip(keys, values, strict=True)]
        if rows:
            yield _frame(rows, rules.schema)


def _row(key: bytes, value: bytes, back: Chain, there: Chain, rules: SeedRules) -> tuple[Any, ...] | str:
    step = "the way back"
    try:
        first_key, first_value = back.revert(key, value)
        step = "the seed"
        row: tuple[Any, ...] = rules.row(first_key, first_value)
        step = "the way there"
        there.convert(first_key, first_value)
    except Exception as error:  # whatever a function of the app's own raises
        return f"{type(error).__name__} on {step}"
    return row


def _frame(rows: list[tuple[Any, ...] | str], schema: pa.Schema) -> pa.RecordBatch:
    """Rows or problems as Arrow has them: a problem's row has nothing but its problem."""
    empty = (None,) * len(schema)
    whole = [(*empty, row) if isinstance(row, str) else (*row, None) for row in rows]
    described = schema.append(pa.field(_PROBLEM, pa.string()))
    columns = [pa.array(column, item.type) for column, item in zip(zip(*whole, strict=True), described, strict=True)]
    return pa.record_batch(columns, schema=described)
