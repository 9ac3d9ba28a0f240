"""The gate between checking and publishing: staged line items pass whole, or not at all.

A batch is what was staged since the last decision of any kind. If it meets the suite, it is appended to the
published table in one commit. The commit carries the verdict and the last staged version (txnAppId, txnVersion). So
Delta skips a repeated publication, and the table itself shows what has been decided. If the batch doesn't meet the
suite, its verdict is kept as quarantined, and readers keep the last good version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from quality.errors import StagedTableError
from quality.profile import drift, merged, profile_of
from quality.reconciliation import (
    LineTopic,
    compare,
    expected_totals,
    not_announced,
    reach_of,
    source_is_gone,
    staged_totals,
)
from quality.settings import QualitySettings
from quality.verdict import Outcome, Profile, Status, Verdict, VerdictArchive
from spark_apps.apps.hadoop_export.spec import decode_progress
from spark_apps.apps.records import topics
from spark_apps.apps.records.masked import CODE_DIGITS
from state.changelog.position import Position
from state.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "hadoop_export"
STAGED_TABLE = "hadoop_export_staged"
PUBLISHER = "quality-gate"
"""The txnAppId of publications; their txnVersion is the last staged version in them."""

_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_SEARCHED_COMMITS = 50
_MAX_AGE_S = 7200
"""The age from which staged rows are late. The check runs each hour, so it has left them out twice by then."""
_COMPARED_BATCHES = 24


@dataclass(frozen=True, slots=True)
class Batch:
    """The staged versions to decide on, both inclusive."""

    first_version: int
    last_version: int


@dataclass(frozen=True, slots=True)
class Publication:
    """Identifies a commit of the published table: each publisher and version is committed only once."""

    publisher: str
    version: int
    metadata: bytes


class Gate:
    """Decides on the staged export of one run directory. Hold its lease: one gate at a time."""

    def __init__(self, settings: QualitySettings, clock: Clock, topic: LineTopic | None = None) -> None:
        """Without `topic` batches aren't compared with their topic."""
        self._topic = topic
        self._settings = settings
        self._clock = clock
        self._staged = settings.delta_table(STAGED_TABLE)
        self._published = settings.delta_table(TABLE)
        self._archive = VerdictArchive(settings.verdict_dir(TABLE))

    def pending(self) -> Batch | None:
        """The batch to decide on; None if there is none. Starts no Spark.

        Raises:
            StagedTableError: the staged table has no change data feed to read additions from.
        """
        staged = _open(self._staged)
        if staged is None:
            return None
        decided = max(self._published_up_to(), self._archive.last_version())
        if staged.version() <= decided:
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

    def decide(self, spark: SparkSession, batch: Batch) -> Verdict:
        """Checks the batch and publishes or quarantines it.

        Raises:
            ValidationError: it couldn't be evaluated; nothing was decided.
            StagedTableError: the staged table was rewritten within the batch; nothing was decided.
        """
        added = _added_rows(spark, self._staged, batch).persist()
        try:
            rows = _count_insertions(added)
            profile = profile_of(added)
            outcomes = self._validate(spark, added, batch, self._settings.data_docs_dir(TABLE))
            outcomes += (*self._compared(added, batch), *self._drifted(profile, batch), self._fresh(batch))
            passed = all(outcome.passed or outcome.is_warning for outcome in outcomes)
            verdict = Verdict(
                table=TABLE,
                status=Status.PUBLISHED if passed else Status.QUARANTINED,
                first_version=batch.first_version,
                last_version=batch.last_version,
                rows=rows,
                decided_at_ms=self._clock.now_ms(),
                outcomes=outcomes,
                profile=profile,
            )
            if passed:
                self._publish(added, Publication(PUBLISHER, verdict.last_version, verdict.to_json()))
        finally:
            added.unpersist()
        self._archive.put(verdict)
        return verdict

    def check_again(
        self, spark: SparkSession, batch: Batch, publish_as: Callable[[tuple[Outcome, ...]], Publication | None]
    ) -> tuple[Outcome, ...]:
        """Checks a batch that was decided on before, leaving verdict and Data Docs as they are.

        If `publish_as` returns a publication, the rows are published. Repeating that publishes them only once.

        Raises:
            ValidationError, StagedTableError: as `decide` does.
        """
        added = _added_rows(spark, self._staged, batch).persist()
        try:
            _count_insertions(added)
            outcomes = self._validate(spark, added, batch, None)
            outcomes += (*self._compared(added, batch), *self._drifted(profile_of(added), batch))
            publication = publish_as(outcomes)
            if publication is not None:
                self._publish(added, publication)
        finally:
            added.unpersist()
        return outcomes

    def _validate(
        self, spark: SparkSession, added: DataFrame, batch: Batch, docs_dir: Path | None
    ) -> tuple[Outcome, ...]:
        # Great Expectations takes seconds to import: import it only for a batch.
        from quality.export_suite import TOTAL_TOLERANCE, SuiteOptions, export_suite, measured  # noqa: PLC0415
        from quality.validation import validate  # noqa: PLC0415

        frame = measured(added.drop(*_CHANGE_COLUMNS), _rows_before(spark, self._staged, batch)).persist()
        options = SuiteOptions(code_digits=CODE_DIGITS, total_tolerance=TOTAL_TOLERANCE)
        try:
            suite = export_suite(options, frame.columns)
            return validate(frame, suite, docs_dir=docs_dir)
        finally:
            frame.unpersist()

    def _compared(self, added: DataFrame, batch: Batch) -> tuple[Outcome, ...]:
        if self._topic is None or not {"_partition", "StoreID", "TotalValue"} <= set(added.columns):
            return ()
        before, after = self._progress(batch)
        if after is None:
            return () if added.isEmpty() else (not_announced(),)
        reach = reach_of(before, after, topics.HADOOP_SINK)
        if any(self._topic.first_offset(partition) > start for partition, (start, _) in reach.items()):
            return (source_is_gone(),)
        expected = expected_totals(reach, self._topic, max_record_bytes=self._settings.max_record_bytes)
        return compare(expected, staged_totals(added))

    def _progress(self, batch: Batch) -> tuple[Position | None, Position | None]:
        """The export's position before the batch, and at its end; None if no commit has one."""
        before = after = None
        for commit in DeltaTable(self._staged).history():
            progress = decode_progress(commit.get("userMetadata"))
            if progress is None or commit["version"] > batch.last_version:
                continue
            if commit["version"] < batch.first_version:
                before = progress
                break
            after = after or progress
        return before, after

    def _drifted(self, profile: Profile, batch: Batch) -> list[Outcome]:
        earlier = self._archive.published_before(batch.first_version, _COMPARED_BATCHES)
        return drift(merged(verdict.profile for verdict in earlier), profile, self._settings.quality_drift_limit)

    def _fresh(self, batch: Batch) -> Outcome:
        limit_s = _MAX_AGE_S
        times = {commit["version"]: commit["timestamp"] for commit in DeltaTable(self._staged).history()}
        staged_ms = times.get(batch.first_version)
        fresh = staged_ms is None or self._clock.now_ms() - staged_ms <= limit_s * 1000
        meaning = f"What was staged is checked within {limit_s:g} s."
        return Outcome("staged_within", None, meaning, fresh, rule="freshness")

    def _publish(self, added: DataFrame, publication: Publication) -> None:
        from quality.export_suite import DAY, PUBLISHED_COLUMNS  # noqa: PLC0415

        (
            added.select(*PUBLISHED_COLUMNS)
            .repartition(DAY)
            .write.format("delta")
            .mode("append")
            .partitionBy(DAY)
            .option("txnAppId", publication.publisher)
            .option("txnVersion", publication.version)
            .option("userMetadata", publication.metadata.decode())
            .save(str(self._published))
        )

    def metadata_of(self, publisher: str) -> bytes | None:
        """The metadata of a publication of `check_again`; None if there was none."""
        published = _open(self._published)
        if published is None or published.transaction_version(publisher) is None:
            return None
        for commit in published.history():
            metadata = str(commit.get("userMetadata", ""))
            if publisher.endswith(f"-{_batch_in(metadata)}"):
                return metadata.encode()
        msg = f"{self._published} holds a publication of {publisher}, but no commit tells of it any more"
        raise StagedTableError(msg)

    def _published_up_to(self) -> int:
        published = _open(self._published)
        version = None if published is None else published.transaction_version(PUBLISHER)
        return -1 if version is None else version

    def _verdict_in_commit(self, last_version: int) -> Verdict:
        for commit in DeltaTable(self._published).history(_SEARCHED_COMMITS):
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


def _open(path: Path) -> DeltaTable | None:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _added_rows(spark: SparkSession, path: Path, batch: Batch) -> DataFrame:
    return (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", batch.first_version)
        .option("endingVersion", batch.last_version)
        .load(str(path))
    )


def _rows_before(spark: SparkSession, path: Path, batch: Batch) -> DataFrame | None:
    if batch.first_version == 0:
        return None
    return spark.read.format("delta").option("versionAsOf", batch.first_version - 1).load(str(path))


def _count_insertions(added: DataFrame) -> int:
    counts = {row["_change_type"]: row["count"] for row in added.groupBy("_change_type").count().collect()}
    if counts.keys() - {"insert"}:
        msg = (
            "rows of the staged table were changed or deleted since the last decision, but it may only grow: "
            "restore it to the version before that (RESTORE TABLE ... TO VERSION AS OF)"
        )
        raise StagedTableError(msg)
    return int(counts.get("insert", 0))
