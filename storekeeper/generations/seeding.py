"""Seeding a generation: making its changelogs, the progress of its tasks, and its checkpoint.

The seed is the live generation's state after one finished batch, and the new one's input begins after that batch.
The live generation keeps running. A repeated attempt makes everything again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import structlog
from confluent_kafka import KafkaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import described, logged_stores, own_topics
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock
from storekeeper.engine.errors import errors_of_tasks
from storekeeper.engine.markers import Marker
from storekeeper.engine.own_topics import own_topics_of
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch, planned_batches
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.engine.runtime.session import leased_session
from storekeeper.engine.runtime.topics import Topics, counts_in
from storekeeper.engine.stream import planned
from storekeeper.engine.transaction import producer_options
from storekeeper.generations.boundary import begin_behind
from storekeeper.generations.catalog import chain_of, changelogs_of, describe_of, spec_of
from storekeeper.generations.comparison import chain_between
from storekeeper.generations.errors import (
    GenerationPendingError,
    GenerationRefusedError,
    NotesGoneError,
    UnconvertibleRowsError,
)
from storekeeper.generations.journal import BEGINNING, Generation, Journal
from storekeeper.generations.seed_checks import SeedCheck
from storekeeper.generations.seed_rows import (
    COUNT_DDL,
    ROWS_DDL,
    Placement,
    Progress,
    SeedTarget,
    converted_rows,
    joined,
    live_progress,
    peers_of,
    progress_of,
    write_rows,
    written_rows,
)
from storekeeper.kafka.clients import new_producer
from storekeeper.names import markers_topic
from storekeeper.snapshots.changes import cut, newest_by_key, read_changelog, whole_range
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.topology.layout import Layout
from storekeeper.topology.slots import NO_SLOTS, Slots, assigned, partitions_by_slot, slot_of
from storekeeper.topology.store import StoreKind
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.topology_store import TopologyStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEED_BATCH = 0
_TRIES = 20
_PAUSE_S = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seed:
    """A complete seed: the position where the input continues, and the number of rows."""

    start: Position
    rows: int


def make_seed(spec: AppSpec, settings: AppSettings, journal: Journal, number: int, clock: Clock) -> Seed:
    """Makes the seed of a planned generation; replaces that of an earlier attempt.

    Raises:
        GenerationRefusedError: it can't begin with the live generation's content.
        UnconvertibleRowsError: rows of the live generation can't be converted.
        UnusableCheckpointError: a topic that holds the live generation's state was deleted.
        GenerationPendingError: the live generation has not finished a batch yet.
        BrokerUnavailableError, OpenTransactionError, AppRunningError: it can't be made now.
    """
    seeding = Seeding(spec, settings, journal.live_generation, journal.generation(number))
    if seeding.new.since is not None:
        return seeding.from_input()
    seeding.check()
    with leased_session([job_lease(spec.name, "seed")], settings.in_generation(seeding.live.number), clock) as spark:
        return seeding.from_live(spark)


@dataclass(frozen=True)
class Seeding:
    """The seed of generation `new`, made from generation `live`, which keeps running."""

    spec: AppSpec
    settings: AppSettings
    live: Generation
    new: Generation

    def check(self) -> None:
        """Runs the checks that need no Spark session. Raises as `make_seed`."""
        self._check_sources()
        self.check_nothing_on_its_way()
        self._moves()
        self.check_nothing_lost()

    def from_live(self, spark: SparkSession) -> Seed:
        """Copies and converts the live generation's rows as of a finished batch. Raises as `make_seed`."""
        moves = self._moves()
        batch, before = self._pinned()
        progress = self._progress(before, moves)
        rows = reduce(DataFrame.unionAll, self._frames(spark, batch, moves)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._check_of(moves).of_frame(rows)
            self._make_topics()
            count = self._written(rows, batch)
        finally:
            rows.unpersist()
        self._begin(batch.source, progress)
        return self._made(batch.source, count)

    def from_rows(
        self,
        rows: Mapping[str, Callable[[], Iterator[pa.RecordBatch]]],
        batch: CommittedBatch,
        progress: Mapping[str, Progress],
    ) -> Seed:
        """Converts and writes rows that are given, of the generation `live` as of a batch. Raises as `make_seed`.

        Args:
            rows: by store, what reads them: batches with columns `_partition`, `_key`, `_value` and `_timestamp_ms`.
                Those that are converted or move are read twice: all are checked before the first is written.
            batch: which; its source is where the input goes on.
            progress: that of the tasks after it, by slot name. Those without one begin anew with their rows.
        """
        moves = self._moves()
        anew = {slot: dict.fromkeys(range(count), b"{}") for slot, count in self.slots.items()}
        begins = self._progress({slot: {**tasks, **progress.get(slot, {})} for slot, tasks in anew.items()}, moves)
        chain = chain_between(self.live, self.new)
        subs = {spec.name: (sub, spec) for sub, spec in _stores(self._new_layout)}

        def made(store: str) -> Iterator[pa.RecordBatch]:
            placement = self._placement(*subs[store], moves)
            return converted_rows(rows[store](), store=store, chain=chain.of(store), placement=placement)

        check = self._check_of(moves)
        check.of_batches((each for store in check.changed for each in made(store)), self.settings.tables)
        self._make_topics()
        target = self._target(batch)
        count = sum(write_rows(made(store), target) for store in rows)
        self._begin(batch.source, begins)
        return self._made(batch.source, count)

    @property
    def slots(self) -> Mapping[str, int]:
        """The slots of the live generation's tasks, with their numbers of tasks."""
        return partitions_by_slot(self._live_layout, self._live_slots)

    @property
    def internal_stores(self) -> list[str]:
        """The stores that have a changelog and no table."""
        served = {store.name for store in self.spec.stores}
        return [spec.name for _, spec in _stores(self._new_layout) if spec.name not in served]

    def from_input(self) -> Seed:
        """Makes a generation without rows that reads the input from its `since`. Raises as `make_seed`."""
        self._check_sources()
        if self._live_checkpoint.last_committed_batch() is None:
            raise self._pending("it has no finished batch: let it run first")
        since, topics = self.new.since or BEGINNING, self._topics
        # Those that tasks read: global tables are none of them. Repartition topics begin empty.
        sources = [topic for topic in self._new_layout.topics if topic not in self._new_layout.topics_to_create]
        if since == BEGINNING:
            start = topics.bounds(sources).start
        else:
            start = topics.offsets_at(sources, round(datetime.fromisoformat(since).timestamp() * 1000))
        self._make_topics()
        self._begin(start, {})
        return self._made(start, 0)

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self.settings.kafka)

    @cached_property
    def _live_settings(self) -> AppSettings:
        return self.settings.in_generation(self.live.number)

    @cached_property
    def _live_checkpoint(self) -> BatchCheckpoint:
        return BatchCheckpoint(self._live_settings.checkpoint_dir(self.spec.name))

    @cached_property
    def _live_topics(self) -> Mapping[str, str]:
        return changelogs_of(self.spec, self.live)

    @cached_property
    def _live_layout(self) -> Layout:
        return self._layout(self.live)

    @cached_property
    def _live_slots(self) -> Slots:
        claim = CheckpointOwner.read(self._live_checkpoint.path)
        return assigned(self._live_layout.topology, NO_SLOTS if claim is None else claim.slots)

    @cached_property
    def _new_slots(self) -> Slots:
        return assigned(self._new_layout.topology, NO_SLOTS)

    @cached_property
    def _new_layout(self) -> Layout:
        return self._layout(self.new)

    def _layout(self, generation: Generation) -> Layout:
        settings = self.settings.in_generation(generation.number)
        topology = described(self.spec.name, describe_of(self.spec, generation.migrations), settings)
        return planned(topology, self._topics, generation.partitions)

    def _check_sources(self) -> None:
        """Refuses a topology that reads other topics: the two generations could not end at the same place.

        The live generation may still run older code, with other sources: the claim of its last start has them.
        """
        live, new = (
            {source.topic for sub in layout.topology.sub_topologies for source in sub.sources}
            - layout.topology.repartition_topics
            for layout in (self._live_layout, self._new_layout)
        )
        claim = CheckpointOwner.read(self._live_checkpoint.path)
        if claim is not None:
            # The position alone also has the topics that earlier code of this generation has read.
            read = self._live_checkpoint.committed_position().offsets.keys() & claim.topic_ids.keys()
            live = live.union(read - claim.own_topics)
        if live != new:
            raise GenerationRefusedError(
                f"generation {self.new.number} would read {', '.join(sorted(new))}, and the live one reads "
                f"{', '.join(sorted(live))}: a generation reads the same topics; start the app under a new name"
            )

    def check_nothing_on_its_way(self) -> None:
        """Refuses to copy rows of an app with repartition topics: the records in them are part of its state."""
        through = self._live_layout.topics_to_create or self._new_layout.topics_to_create
        if through:
            raise GenerationRefusedError(
                f"{self.spec.name} repartitions through topic {min(through)}, which holds records between two batches: "
                "its rows can't be copied. Fill the generation from the input: `seed --from beginning`"
            )

    def check_nothing_lost(self) -> None:
        """Refuses to copy changelogs that are known to have lost records: both generations would lack the same rows."""
        spec, settings = spec_of(self.spec, self.live), self._live_settings
        own = own_topics(spec, settings, self._live_slots)
        missing = self._topics.missing(own)
        if gone := sorted({*missing}.intersection(self._live_topics.values())):
            raise GenerationRefusedError(
                f"changelog {gone[0]} was deleted, so rows can't be copied. Go on from the tables (`seed --from "
                "tables`), or fill the generation from the input (`seed --from beginning`)"
            )
        owner = CheckpointOwner.read(self._live_checkpoint.path)
        if owner is not None:
            owner.check_own_topics(self._topics.ids([topic for topic in own if topic not in missing]), own)
        for topic, partition, start in self._topics.bounds(topic for topic in own if topic not in missing).start:
            if start > 0:  # compaction doesn't move the first offset
                raise GenerationRefusedError(
                    f"topic {topic} begins at {start} in partition {partition}: its first records were deleted, so "
                    "rows can't be copied. Fill the generation from the input: `seed --from beginning`"
                )
        for store in spec.stores:
            topic, manifest = store.changelog_topic, newest_manifest(settings.delta_table(store.table_name))
            if manifest is None or manifest.changelog_topic != topic:
                continue
            ends = self._topics.committed_end([topic])
            for partition, reached in manifest.changelog_offsets.items():
                end = ends.offset(topic, partition) or 0
                if end < reached:
                    raise GenerationRefusedError(
                        f"changelog {topic} ends at {end} in partition {partition}, and the last snapshot of "
                        f"{store.name} reaches to {reached}: it has lost records, so its rows can't be copied. "
                        "Fill the generation from the input: `seed --from beginning`"
                    )

    def _moves(self) -> dict[str, bool]:
        """For each store of the new generation: whether its rows may move to other partitions.

        Raises:
            GenerationRefusedError: the live generation has no such store, or the store's rows would move and can't.
        """
        chain = chain_between(self.live, self.new)
        before = {spec.name: (sub, spec) for sub, spec in _stores(self._live_layout)}
        moves: dict[str, bool] = {}
        for sub, spec in _stores(self._new_layout):
            if spec.name not in before or before[spec.name][1].kind is not spec.kind:
                raise GenerationRefusedError(
                    f"store {spec.name} of generation {self.new.number} has nothing to begin with: the live generation "
                    "has no such store of its kind. Fill it from the input: `seed --from beginning`"
                )
            tasks = self._live_layout.plan.tasks(before[spec.name][0])
            moved = chain.of(spec.name).changes_key or tasks != self._new_layout.plan.tasks(sub)
            if moved and spec.internal and spec.kind is StoreKind.KEY_VALUE:
                msg = f"rows of store {spec.name} can't move to other tasks: leave partitions and keys as they are"
                raise GenerationRefusedError(msg)
            moves[spec.name] = moved
        return moves

    def _pinned(self) -> tuple[CommittedBatch, Mapping[str, Progress]]:
        """A finished batch of the live generation, and the progress of the tasks after it.

        Both are read at once: the app runs on, and its markers go on before the rows are copied.
        """
        checkpoint, gone = self._live_checkpoint, None
        for _ in range(_TRIES):
            batch = CommittedBatch.of(checkpoint, self.live.number)
            query_id = checkpoint.query_id()
            if batch is None or query_id is None:
                break
            kafka, name = self.settings.kafka, self.spec.name
            slots, number = self.slots, self.live.number
            try:
                before = live_progress(kafka, name, number, slots, query_id=query_id, batch_id=batch.batch_id)
                return batch, before
            except NotesGoneError as error:
                gone = error
                time.sleep(_PAUSE_S)
        raise self._pending("it has no finished batch: let it run first" if gone is None else str(gone)) from gone

    def _pending(self, why: str) -> GenerationPendingError:
        return GenerationPendingError(f"generation {self.live.number} of {self.spec.name} can't be seeded now: {why}")

    def _progress(self, before: Mapping[str, Progress], moves: Mapping[str, bool]) -> dict[str, Progress]:
        """The progress that the new generation's tasks begin with, by slot name."""
        progress: dict[str, Progress] = {}
        for sub in self._new_layout.topology.sub_topologies:
            peers = [] if sub.is_global else peers_of(sub, self._live_layout)
            if not peers:
                continue
            tasks = self._new_layout.plan.tasks(sub)
            moved = any(moves.get(spec.name, False) for spec in sub.stores)
            moved = moved or any(tasks != self._live_layout.plan.tasks(peer) for peer in peers)
            reached = joined([before[slot_of(peer, self._live_slots)] for peer in peers])
            progress[slot_of(sub, self._new_slots)] = progress_of(reached, tasks, moved=moved)
        return progress

    def _frames(self, spark: SparkSession, batch: CommittedBatch, moves: Mapping[str, bool]) -> Iterator[DataFrame]:
        """The rows that the new generation begins with, or their problems: one frame per store."""
        chain = chain_between(self.live, self.new)
        for sub, spec in _stores(self._new_layout):
            rows = self._folded(spark, self._live_topics[spec.name], batch)
            placement = self._placement(sub, spec, moves)
            convert = partial(converted_rows, store=spec.name, chain=chain.of(spec.name), placement=placement)
            yield rows.mapInArrow(convert, ROWS_DDL)

    def _folded(self, spark: SparkSession, topic: str, batch: CommittedBatch) -> DataFrame:
        """The rows that a store's changelog holds at the end of that batch."""
        whole = whole_range(topic, self._topics.committed_bounds([topic]))
        records = read_changelog(spark, self._live_settings, whole)
        # Read after the range's end: every batch with records before that end is planned by now.
        part = cut(records, whole, batch, planned_batches(self._live_checkpoint))
        return newest_by_key(records, part).where("_value is not null")

    def _check_of(self, moves: Mapping[str, bool]) -> SeedCheck:
        chain = chain_between(self.live, self.new)
        return SeedCheck(self.new.number, [store for store, moved in moves.items() if moved or chain.of(store).steps])

    def _placement(self, sub: SubTopology, spec: TopologyStore, moves: Mapping[str, bool]) -> Placement:
        if not moves[spec.name]:
            return Placement(spec.kind)
        keeps_keys = not chain_between(self.live, self.new).of(spec.name).changes_key
        before = {spec.name: self._live_layout.plan.tasks(sub) for sub, spec in _stores(self._live_layout)}
        return Placement(spec.kind, self._new_layout.plan.tasks(sub), before[spec.name] if keeps_keys else None)

    def _make_topics(self) -> None:
        """Makes the changelogs, with the settings of the live ones, and the repartition and markers topics."""
        like = {topic: self._live_topics.get(store) for store, topic in self.new.topics.items()}
        there = {*self._topics.names()}
        for own in own_topics_of(self.spec.name, self._new_layout, self.new.number, self._new_slots):
            live = like.get(own.name)
            self._topics.recreate(
                own.name, own.partitions, self._topics.own_config(live) if live in there else own.config
            )

    def _written(self, rows: DataFrame, batch: CommittedBatch) -> int:
        with errors_of_tasks(UnconvertibleRowsError):
            counts = rows.mapInArrow(partial(written_rows, target=self._target(batch)), COUNT_DDL).collect()
        return sum(row["written"] for row in counts)

    def _target(self, batch: CommittedBatch) -> SeedTarget:
        options = producer_options(self.settings)
        return SeedTarget(
            kafka=self.settings.kafka,
            producer={name: value for name, value in options.items() if name != "transaction.timeout.ms"},
            topics=self.new.topics,
            headers={spec.name: self._headers(sub, spec, batch).encode() for sub, spec in _stores(self._new_layout)},
            timeout_s=self.settings.transaction_timeout_ms / 1000,
        )

    def _headers(self, sub: SubTopology, spec: TopologyStore, batch: CommittedBatch) -> ChangelogHeaders:
        chain, origins = chain_of(self.new.migrations), self._new_layout.origins(sub)
        ranges = {topic: {partition: (offset, offset) for partition, offset in partitions.items()}
                  for topic, partitions in batch.source.offsets.items() if topic in origins}  # fmt: skip
        return ChangelogHeaders(
            generation=self.new.number,
            batch_id=_SEED_BATCH,
            batch_ms=batch.at_ms,
            source=ranges,
            schema_version=1 + len(chain.of(spec.name).steps),
        )

    def _begin(self, start: Position, progress: Mapping[str, Progress]) -> None:
        """Writes the tasks' progress, then the checkpoint and the claim on it."""
        query_id, number = str(uuid4()), self.new.number
        self._write_markers(query_id, progress)
        checkpoint = BatchCheckpoint(self.settings.in_generation(self.new.number).checkpoint_dir(self.spec.name))
        # Includes the empty repartition topics: the hand-over reads their names from the checkpoint.
        empty = {topic: dict.fromkeys(range(count), 0) for topic, count in self._new_layout.topics_to_create.items()}
        begin_behind(checkpoint, start.merged(Position(empty)), query_id)
        partitions = counts_in(start) | self._topics.partition_counts(self.new.topics.values())
        ids = self._topics.ids(self.spec.sources(self.settings))
        claim = CheckpointOwner(self.spec.name, number, query_id, ids, partitions, slots=self._new_slots)
        claim.write(checkpoint.path)

    def _write_markers(self, query_id: str, progress: Mapping[str, Progress]) -> None:
        failed: list[KafkaError] = []
        producer = new_producer(self.settings.kafka, {
            "enable.idempotence": True,
            "on_delivery": lambda error, _: failed.append(error) if error is not None else None,
            "delivery.report.only.error": True,
        })  # fmt: skip
        # A task whose changelog has lost seeded rows before its first batch sees it by these. Each offset is a row.
        logs = self._topics.committed_end(self.new.topics.values())
        for slot, by_partition in progress.items():
            topic = markers_topic(self.spec.name, self.new.number, slot)
            for partition, reached in by_partition.items():
                ends = {log: offsets[partition] for log, offsets in logs.offsets.items() if partition in offsets}
                marker = Marker(_SEED_BATCH, {}, {}, reached, logs=ends, changes=ends)
                producer.produce(topic, marker.encode(), query_id.encode(), partition)
        left = producer.flush(self.settings.transaction_timeout_ms / 1000)
        if failed or left:
            reason = failed[0].str() if failed else f"{left} markers were not taken in time"
            raise self._pending(f"the broker does not take the progress of its tasks ({reason})")

    def _made(self, start: Position, rows: int) -> Seed:
        _log.info("seeded", app=self.spec.name, generation=self.new.number, rows=rows)
        return Seed(start, rows)


def _stores(layout: Layout) -> list[tuple[SubTopology, TopologyStore]]:
    """The stores of a topology that have a changelog, with their sub-topologies."""
    logged = {spec.name for spec in logged_stores(layout.topology)}
    return [(sub, spec) for sub in layout.topology.sub_topologies for spec in sub.stores if spec.name in logged]
