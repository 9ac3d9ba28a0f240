"""The gate between checking and publishing a table: staged rows pass whole, or not at all.

A batch is what was staged since the last decision of any kind. If it meets the suite, it is appended to the
published table in one commit. The commit carries the verdict and the last staged version (txnAppId, txnVersion). So
Delta skips a repeated publication, and the table itself shows what has been decided. If the batch doesn't meet the
suite, its verdict is kept as quarantined, and readers keep the last good version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from storekeeper.apps.checked_table import CheckedTable, WithTable, WithTopic
from storekeeper.apps.registry import gated_tables
from storekeeper.apps.table_progress import decode_progress
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock
from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location
from storekeeper.quality.errors import StagedTableError
from storekeeper.quality.gate import Batch, Publication, PublishAs, no_session
from storekeeper.quality.profile import buckets_of, counted, drifted
from storekeeper.quality.reconciliation import (
    Topic,
    compare,
    expected_totals,
    not_announced,
    other_is_gone,
    reach_of,
    totals_of,
)
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import Outcome, Profile, Status, Verdict, VerdictArchive
from storekeeper.snapshots.catalogue.entry import entry_of_published, is_configured
from storekeeper.snapshots.delta_log import delta_table
from storekeeper.snapshots.gated_seal import GatedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from storekeeper.quality.checkpoint import Afterwards

PUBLISHER = "quality-gate"
"""The txnAppId of publications; their txnVersion is the last staged version in them."""

_CHANGE = "_change_type"
"""The column of a change data feed that says what happened to a row."""
_SEARCHED_COMMITS = 50
_MAX_AGE_S = 7200
"""The age from which staged rows are late: the hourly check must have missed them twice."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The rows of a batch, as long as they are kept. `frame` has the columns of `storekeeper.quality.measures` and
    `_CHANGE` too; `usable` are the columns that are there with their declared type.
    """

    frame: DataFrame
    usable: frozenset[str]
    count: int
    profile: Profile


class TableGate:
    """Decides on what is staged of one table of one run directory. Hold its lease: one gate at a time."""

    def __init__(
        self, table: CheckedTable, settings: QualitySettings, clock: Clock, spark: Callable[[], SparkSession]
    ) -> None:
        """Opens no table yet. `spark` starts the session that batches are read with, or returns it."""
        self._table = table
        self._settings = settings
        self._clock = clock
        self._spark = spark
        self._seals = GatedTable.staged(settings, table), GatedTable.published(settings, table)
        self._staged, self._published = (sealed.path for sealed in self._seals)
        self._archive = VerdictArchive(settings.verdict_dir(table.name))

    def pending(self) -> Batch | None:
        """The batch to decide on; None if there is none. Starts no Spark.

        Raises:
            StagedTableError: the staged table has no change data feed to read additions from, or was recreated.
            SnapshotDamagedError: what was decided on before, or what was published, isn't as it was sealed.
        """
        self._check_sealed(GatedTable.current)
        staged = _open(self._staged)
        if staged is None:
            return None
        decided = self._decided_up_to(staged)
        if staged.version() == decided:
            return None
        if staged.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
            msg = f"{self._staged} has no change data feed: set its property delta.enableChangeDataFeed"
            raise StagedTableError(msg)
        return Batch(decided + 1, staged.version())

    def last_verdict(self) -> Verdict | None:
        """The newest verdict; None if there is none. Archives a published verdict that a crash left unarchived."""
        published = self._published_up_to()
        if published > self._archive.last_version():
            self._archive.put(self._verdict_in_commit(published))
        return self._archive.last()

    def decide(self, batch: Batch) -> Verdict:
        """Checks the batch and publishes or quarantines it.

        Raises:
            ValidationError: it couldn't be evaluated; nothing was decided.
            StagedTableError: the staged table was rewritten within the batch; nothing was decided.
            SnapshotDamagedError: as `pending`.
        """
        from storekeeper.quality.checkpoint import Afterwards  # noqa: PLC0415 (see `_check`)

        self._check_sealed(GatedTable.take_over)
        self.last_verdict()  # completes the archive before a verdict is added
        verdicts: list[Verdict] = []
        with self._measured(batch) as rows:
            beside = (*self._checks_outside_suite(rows, batch), self._fresh(batch))

            def take(outcomes: tuple[Outcome, ...]) -> Verdict:
                verdict = self._verdict(batch, rows, outcomes + beside)
                if verdict.passed:
                    self._publish(rows, Publication(PUBLISHER, verdict.last_version, verdict.to_json()))
                self._archive.put(verdict)
                verdicts.append(verdict)
                return verdict

            docs_dir = self._settings.data_docs_dir(self._table.name)
            self._check(rows, Afterwards(take, docs_dir, self._table.notify))
        staged, _ = self._seals
        staged.seal_version(batch.last_version)
        return verdicts[0]

    def check_again(self, batch: Batch, publish_as: PublishAs) -> tuple[Outcome, ...]:
        """Checks a batch that was decided on before, leaving verdict and Data Docs as they are.

        If `publish_as` returns a publication, the rows are published. Repeating that publishes them only once.

        Raises:
            ValidationError, StagedTableError, SnapshotDamagedError: as `decide` does; the second also if the staged
                table was recreated.
        """
        from storekeeper.quality.checkpoint import Afterwards  # noqa: PLC0415 (see `_check`)

        self._check_sealed(GatedTable.take_over)
        self._decided_up_to(delta_table(self._staged))
        results: list[Outcome] = []
        with self._measured(batch) as rows:
            beside = self._checks_outside_suite(rows, batch)

            def take(outcomes: tuple[Outcome, ...]) -> None:
                results.extend(outcomes + beside)
                publication = publish_as(tuple(results))
                if publication is not None:
                    self._publish(rows, publication)

            self._check(rows, Afterwards(take))
        return tuple(results)

    def metadata_of(self, publisher: str) -> bytes | None:
        """The metadata of a publication of `check_again`; None if there was none."""
        published = _open(self._published)
        if published is None or published.transaction_version(publisher) is None:
            return None
        for commit in published.history():
            metadata = str(commit.get("userMetadata", ""))
            if publisher.endswith(f"-{_batch_in(metadata)}"):
                return metadata.encode()
        msg = f"{self._published} holds a publication of {publisher}, but no commit records it any more"
        raise StagedTableError(msg)

    @contextmanager
    def _measured(self, batch: Batch) -> Iterator[_Measured]:
        """The rows of a batch while the block runs."""
        from storekeeper.quality.measured_rows import measured  # noqa: PLC0415 (only a batch is worth the import of Spark)

        added = self._added(batch)
        types = dict(added.dtypes)
        usable = frozenset(each.name for each in self._table.columns if types.get(each.name) == each.sql_type)
        frame = measured(added, self._staged_up_to(batch), self._table, usable).persist()
        try:
            profile = counted(frame, {_CHANGE: _CHANGE, **buckets_of(self._table, usable)})
            yield _Measured(frame, usable, _insertions(profile.pop(_CHANGE)), profile)
        finally:
            frame.unpersist()

    def _check(self, rows: _Measured, afterwards: Afterwards) -> None:
        # Great Expectations takes seconds to import: import it only for a batch.
        from storekeeper.quality.checkpoint import run_checkpoint  # noqa: PLC0415
        from storekeeper.quality.suite import CheckedFrame, for_spark, suite_of  # noqa: PLC0415

        frame = rows.frame.drop(_CHANGE)
        run_checkpoint(frame, suite_of(self._table, CheckedFrame(frame.columns, rows.usable, for_spark)), afterwards)

    def _verdict(self, batch: Batch, rows: _Measured, outcomes: tuple[Outcome, ...]) -> Verdict:
        passed = all(outcome.passed or outcome.is_warning for outcome in outcomes)
        return Verdict(
            table=self._table.name,
            status=Status.PUBLISHED if passed else Status.QUARANTINED,
            first_version=batch.first_version,
            last_version=batch.last_version,
            rows=rows.count,
            decided_at_ms=self._clock.now_ms(),
            outcomes=outcomes,
            profile=rows.profile,
            staged_id=str(delta_table(self._staged).metadata().id),
        )

    def _checks_outside_suite(self, rows: _Measured, batch: Batch) -> tuple[Outcome, ...]:
        """The outcomes of types, reconciliation and drift, which the suite does not check."""
        return (
            *self._typed(rows),
            *self._compared(rows, batch),
            *drifted(self._archive, batch.first_version, rows.profile),
        )

    def _typed(self, rows: _Measured) -> list[Outcome]:
        types = dict(rows.frame.dtypes)
        return [
            Outcome(
                "column_type", column.name, f"{column.name} should be {column.sql_type} and is {sql_type}.", False,
                rule="columns",
            )
            for column in self._table.columns
            if (sql_type := types.get(column.name, column.sql_type)) != column.sql_type
        ]  # fmt: skip

    def _compared(self, rows: _Measured, batch: Batch) -> list[Outcome]:
        if not self._settings.quality_reconcile:
            return []
        outcomes: list[Outcome] = []
        for rule in self._table.reconcile:
            if rows.usable.issuperset(filter(None, (*rule.group_by, rule.sum))):
                outcomes += (
                    self._with_topic(rule, rows, batch)
                    if isinstance(rule, WithTopic)
                    else self._with_table(rule, rows.frame)
                )
        return outcomes

    def _with_topic(self, rule: WithTopic, rows: _Measured, batch: Batch) -> list[Outcome]:
        before, after = self._progress(batch)
        if after is None:
            return not_announced(rule) if rows.count else []
        topic = Topic(self._settings, rule.topic)
        reach = reach_of(before, after, rule.topic, topic.first_offset)
        if any(topic.first_offset(partition) > start for partition, (start, _) in reach.items()):
            return other_is_gone(rule)
        return compare(rule, expected_totals(rule, reach, topic, self._settings), totals_of(rows.frame, rule))

    def _with_table(self, rule: WithTable, added: DataFrame) -> list[Outcome]:
        """What readers would see in the batch's groups, beside the same groups of the other table."""
        columns = [*rule.group_by, *filter(None, [rule.sum])]
        other = self._readable(self._settings.delta_table(rule.table))
        if other is None or not set(columns) <= set(other.columns):
            return other_is_gone(rule)
        published = self._readable(self._published)
        rows = added.select(*columns)
        ours = rows if published is None else rows.unionByName(published.select(*columns))
        theirs = other.select(*columns)
        if rule.group_by:
            groups = added.select(*rule.group_by).distinct()
            ours, theirs = (_in_groups(each, groups) for each in (ours, theirs))
        return compare(rule, totals_of(theirs, rule), totals_of(ours, rule))

    def _readable(self, path: Location) -> DataFrame | None:
        return None if _open(path) is None else self._spark().read.format("delta").load(str(path))

    def _progress(self, batch: Batch) -> tuple[Position | None, Position | None]:
        """The app's position before the batch, and at its end; None if no commit has one."""
        before = after = None
        for commit in delta_table(self._staged).history():
            progress = decode_progress(commit.get("userMetadata"))
            if progress is None or commit["version"] > batch.last_version:
                continue
            if commit["version"] < batch.first_version:
                before = progress
                break
            after = after or progress
        return before, after

    def _fresh(self, batch: Batch) -> Outcome:
        limit_s = _MAX_AGE_S
        times = {commit["version"]: commit["timestamp"] for commit in delta_table(self._staged).history()}
        staged_ms = times.get(batch.first_version)
        fresh = staged_ms is None or self._clock.now_ms() - staged_ms <= limit_s * 1000
        meaning = f"Staged rows are checked within {limit_s:g} s."
        return Outcome("staged_within", None, meaning, fresh, rule="freshness")

    def _publish(self, rows: _Measured, publication: Publication) -> None:
        from storekeeper.snapshots.catalogue.registration import try_to_register  # noqa: PLC0415 (loads Spark)

        published = rows.frame.select(*self._table.published_columns)
        if self._table.partition_by:
            published = published.repartition(*self._table.partition_by)
        _, sealed = self._seals
        with sealed.writing():
            (
                published.write.format("delta")
                .mode("append")
                .partitionBy(*self._table.partition_by)
                .option("txnAppId", publication.publisher)
                .option("txnVersion", publication.version)
                .option("userMetadata", publication.metadata.decode())
                .save(str(self._published))
            )
        if is_configured(self._settings):
            try_to_register(self._spark(), entry_of_published(self._table, self._settings))

    def _added(self, batch: Batch) -> DataFrame:
        return (
            self._spark()
            .read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", batch.first_version)
            .option("endingVersion", batch.last_version)
            .load(str(self._staged))
            .drop("_commit_version", "_commit_timestamp")
        )

    def _staged_up_to(self, batch: Batch) -> DataFrame | None:
        """All rows that were staged with the batch and before it; None if there are none before."""
        if batch.first_version == 0:
            return None
        version = batch.last_version
        return self._spark().read.format("delta").option("versionAsOf", version).load(str(self._staged))

    def _decided_up_to(self, staged: DeltaTable) -> int:
        """The last staged version that was decided on; -1 if there is none.

        Raises:
            StagedTableError: the decisions are on another table, which this one has replaced.
        """
        decided = max(self._published_up_to(), self._archive.last_version())
        last = self._archive.last()
        other = last is not None and last.staged_id not in {"", str(staged.metadata().id)}
        if other or staged.version() < decided:
            name = self._table.name
            decisions = self._settings.verdict_dir(name), self._settings.resolution_dir(name)
            places = (self._published, *decisions, *(sealed.file for sealed in self._seals))
            raise StagedTableError(
                f"{self._staged} was recreated: versions up to {decided} of the table before were decided on. Put that "
                f"table back. Or, to check the new one from its version 0, move away {', '.join(map(str, places))}"
            )
        return decided

    def _check_sealed(self, check: Callable[[GatedTable], object]) -> None:
        try:
            for sealed in self._seals:
                check(sealed)
        except SnapshotDamagedError:
            staged = None
            with suppress(DeltaError, OSError):
                staged = _open(self._staged)
            if staged is not None:
                self._decided_up_to(staged)  # says if it was recreated
            raise

    def _published_up_to(self) -> int:
        published = _open(self._published)
        version = None if published is None else published.transaction_version(PUBLISHER)
        return -1 if version is None else version

    def _verdict_in_commit(self, last_version: int) -> Verdict:
        for commit in delta_table(self._published).history(_SEARCHED_COMMITS):
            try:
                verdict = Verdict.from_json(commit.get("userMetadata", ""))
            except ValueError:
                continue  # another writer's commit, such as one of OPTIMIZE
            if verdict.last_version == last_version:
                return verdict
        msg = f"{self._published} was published up to staged version {last_version}, but no commit holds the verdict"
        raise StagedTableError(msg)


def _batch_in(metadata: str) -> str | None:
    try:
        return str(orjson.loads(metadata)["batch"])
    except (ValueError, KeyError, TypeError):
        return None


def _open(path: Location) -> DeltaTable | None:
    try:
        return delta_table(path)
    except TableNotFoundError:
        return None


def _in_groups(rows: DataFrame, groups: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    renamed = groups.toDF(*(f"__group_{name}" for name in groups.columns))
    same = [F.col(name).eqNullSafe(F.col(f"__group_{name}")) for name in groups.columns]
    return rows.join(renamed, same, "left_semi")


def _insertions(changes: Mapping[str, int]) -> int:
    """The number of inserted rows, by the kinds of changes."""
    if changes.keys() - {"insert"}:
        raise StagedTableError(
            "rows of the staged table were changed or deleted since the last decision, but it may only grow: "
            "restore it to the version before that (RESTORE TABLE ... TO VERSION AS OF)"
        )
    return changes.get("insert", 0)


_COUNTS = ("numOutputRows", "num_added_rows")
"""How the metrics of a commit name its rows: Spark's, and those of deltalake."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Staged versions that wait, both inclusive, and their rows; None if a commit doesn't say how many it added."""

    first_version: int
    last_version: int
    rows: int | None


def waiting_of(table: str, settings: QualitySettings, clock: Clock) -> Waiting | None:
    """The staged versions of a table that have not been checked yet; None if there are none.

    Raises:
        StagedTableError: the staged table can't be checked as it is.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    declared = gated_tables()[table]
    batch = TableGate(declared, settings, clock, no_session).pending()
    if batch is None:
        return None
    commits = delta_table(settings.delta_table(declared.staged_name)).history()
    counts = [_rows_of(one) for one in commits if batch.first_version <= one["version"] <= batch.last_version]
    known = [count for count in counts if count is not None]
    return Waiting(batch.first_version, batch.last_version, sum(known) if len(known) == len(counts) else None)


def _rows_of(commit: Mapping[str, Any]) -> int | None:
    """The rows that a commit added, as its metrics say; 0 for one that only made the table."""
    if str(commit.get("operation", "")).startswith("CREATE TABLE"):
        return 0
    metrics = commit.get("operationMetrics") or {}
    return next((int(metrics[name]) for name in _COUNTS if name in metrics), None)
