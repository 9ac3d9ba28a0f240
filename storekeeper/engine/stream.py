"""The driver's part of the engine: finds an app's topics, and runs each batch's stages on Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import structlog

from storekeeper.apps.errors import MorePartitionsError
from storekeeper.apps.topology_app import Describe, changelog_topics, described, global_topics
from storekeeper.changelog.committed_ends import committed_ends
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.changelog.reader import TopicFacts
from storekeeper.engine.errors import errors_of_tasks
from storekeeper.engine.importable import check_importable
from storekeeper.engine.own_topics import own_topics_of
from storekeeper.engine.parcels import outcome_in
from storekeeper.engine.runtime.planner import Planner
from storekeeper.engine.runtime.sink_metrics import Written, decode_outcome
from storekeeper.engine.runtime.stream import Stream, StreamContext
from storekeeper.engine.runtime.topics import Topics, check_partitions, counts_in, facts_of
from storekeeper.engine.runtime.wall_timers import WallTimers
from storekeeper.engine.shuffle import shuffle_files_deleted, shuffled
from storekeeper.engine.stages import run_gathered, run_sources
from storekeeper.engine.topic_groups import topic_groups
from storekeeper.engine.transaction import WriterPlan, producer_options
from storekeeper.engine.work import AppWork, BatchWork
from storekeeper.topology.layout import Layout, check_runnable
from storekeeper.topology.plan import Topology
from storekeeper.topology.schemas import written_schemas

if TYPE_CHECKING:
    from pyspark import RDD

PURGE_INTERVAL_S = 30.0
"""As in Kafka Streams: repartition topics keep records only until they are processed."""

_log = structlog.get_logger(__name__)


def open_topology_stream(context: StreamContext, describe: Describe) -> Stream:
    """The stream of an app that is a topology.

    Raises:
        ConfigurationError: the topology can't run on the existing topics, workers can't import it, or a subject lacks
            or refuses a schema.
        SchemaRegistryUnavailableError: it writes by schemas, and their registry doesn't answer.
    """
    settings, app = context.settings, context.spec.name
    topology = described(app, describe, settings)
    check_runnable(topology)
    check_importable(app, describe, topology)
    topics = Topics(settings.kafka)
    generation = context.generation
    layout = planned(topology, topics, None if generation is None else generation.partitions)
    for serde in written_schemas(topology):
        serde.prepare()
    between = layout.topics_to_create
    check_partitions(app, between, topics.partition_counts(between.keys() - topics.missing(between)))
    for own in own_topics_of(app, layout, settings.generation, context.slots):
        topics.ensure_internal(own.name, own.partitions, own.config)
    # A batch takes a repartition topic to its end. So one batch reads all that an earlier one wrote there, in the order
    # of time. If that were cut, records of one task would come later than younger ones of another, and windows would
    # drop them.
    most = settings.max_offsets_per_trigger
    planner = Planner(topics, topic_groups(layout), most=most, unlimited=sorted(between))
    batches = Batches(context, describe, layout)
    # Timers wait for a broker that is away for a moment, as records do.
    return Stream(planner, batches, due=lambda: planner.has_news and batches.timers.due())


def planned(topology: Topology, topics: Topics, repartitioned: int | None = None) -> Layout:
    """The topology's tasks on the existing topics.

    Args:
        topology: the topology.
        topics: the broker.
        repartitioned: the number of partitions behind repartitions that may have any; None leaves it to the topology.

    Raises:
        ConfigurationError: topics are missing, or topics that are joined have different numbers of partitions.
    """
    read = {source.topic for sub in topology.sub_topologies for source in sub.sources}
    external = read - topology.repartition_topics
    return Layout(topology.plan(topics.partition_counts(external), repartitioned))


class Batches:
    """Runs the batches of one app. Called by one thread.

    Attributes:
        timers: when the timers of its tasks are due.
    """

    def __init__(self, context: StreamContext, describe: Describe, layout: Layout) -> None:
        self._context = context
        self._describe = describe
        self._layout = layout
        self.timers = WallTimers(layout.with_processors)
        self._work: AppWork | None = None
        self._topics = Topics(context.settings.kafka)
        self._purged_s = time.monotonic()

    def __call__(self, batch_id: int) -> None:
        """Runs all tasks of a batch, and returns once each has committed.

        Raises:
            StateError: a task failed. None of its writes are visible; other tasks may have committed.
            MorePartitionsError: an input has more partitions than when the app started. No task has run.
            OpenTransactionError: what was written to a repartition topic stays hidden.
        """
        began_s = time.monotonic()
        tasks = self.tasks(batch_id, self._layout.last_stage)
        with shuffle_files_deleted(tasks), errors_of_tasks():
            outcomes = [decode_outcome(outcome_in(parcel)) for parcel in tasks.collect()]
        self.timers.learn(outcomes, began_s)
        written = sum(outcomes, Written())
        if written.replayed_tasks:
            _log.info("batch_was_committed", app=self._context.spec.name, batch=batch_id, tasks=written.replayed_tasks)
        self._context.wrote(batch_id, written)
        self._await_repartitioned()
        if batch_id > 0:  # this batch may be run again
            self._purge(batch_id - 1)

    def tasks(self, batch_id: int, last_stage: int) -> RDD[bytes]:
        """A dataset that, when collected, runs a batch's tasks up to and with a stage. For its parcels see
        `engine.parcels`.
        """
        context = self._context
        self._check_partitions(batch_id)
        if self._work is None:  # the query gets its id when it starts
            self._work = self._app_work()
        work = BatchWork(
            app=self._work,
            batch_id=batch_id,
            source=context.checkpoint.source_ranges(batch_id),
            batch_ms=context.checkpoint.planned_at_ms(batch_id),
            writes_outputs=context.generation is None or context.generation.writes_outputs(batch_id),
            timed=self.timers.subs,
        )
        numbers = range(len(work.first_tasks(self._layout)))
        spread = context.spark.parallelize(numbers, max(1, len(numbers)))
        parcels = spread.mapPartitions(partial(run_sources, work=work))
        for stage in range(1, last_stage + 1):
            gathered = shuffled(parcels, len(self._layout.tasks(stage)))
            parcels = gathered.mapPartitions(partial(run_gathered, work=work, stage=stage))
        return parcels

    def _await_repartitioned(self) -> None:
        """Waits until readers see all that the batch has written to repartition topics.

        The broker confirms a commit before each partition has its mark, and the next batch ends at the first record
        without one. Records that it leaves to the batch after it would be late for windows.
        """
        between = self._layout.topics_to_create
        if between:
            partitions = ((topic, partition) for topic, count in between.items() for partition in range(count))
            committed_ends(self._context.settings.kafka, partitions)

    def _check_partitions(self, batch_id: int) -> None:
        """Refuses a batch with partitions that the tasks were not laid out for. The planner finds new ones.

        Raises:
            PartitionsChangedError: keys of a repartition topic have moved.
            MorePartitionsError: an input has more; the next start lays out tasks for them.
        """
        app, planned = self._context.spec.name, self._layout.plan.partitions
        found = counts_in(self._context.checkpoint.end_position(batch_id))
        check_partitions(app, self._layout.topics_to_create, found)
        for topic, count in found.items():
            if count > planned.get(topic, count):
                raise MorePartitionsError(
                    f"topic {topic} has {count} partitions, and had {planned[topic]} when {app} started: start it again"
                )

    def _purge(self, batch_id: int) -> None:
        """Deletes what a batch and those before it read of the repartition topics, at most once per `PURGE_INTERVAL_S`.

        If the broker doesn't answer, a later call tries again.
        """
        names = self._layout.topics_to_create
        if not names or time.monotonic() - self._purged_s < PURGE_INTERVAL_S:
            return
        self._purged_s = time.monotonic()
        processed = self._context.checkpoint.end_position(batch_id)
        try:
            self._topics.delete_records(
                Position({topic: ends for topic, ends in processed.offsets.items() if topic in names})
            )
        except BrokerUnavailableError as error:
            _log.warning("repartition_topics_not_purged", why=str(error))

    def _app_work(self) -> AppWork:
        context, settings, layout = self._context, self._context.settings, self._layout
        app = context.spec.name
        dead_letters = context.spec.dead_letter_topics
        logged, tables = changelog_topics(app, layout.topology, settings.generation), global_topics(layout.topology)
        facts = facts_of(logged | tables, settings)
        changelogs = {store: facts[store] for store in logged}
        written = {sink.topic for sub in layout.topology.sub_topologies for sink in sub.sinks} - layout.shuffles.keys()
        limited = [*written, *dead_letters, *(log.topic for log in changelogs.values())]
        return AppWork(
            app=app,
            query_id=context.checkpoint.query_id() or "",
            describe=self._describe,
            settings=settings,
            partitions=layout.plan.partitions,
            changelogs=changelogs,
            global_topics={store: facts[store] for store in tables},
            schema_versions={store.name: store.schema_version for store in context.spec.stores},
            writer=WriterPlan(
                kafka=settings.kafka,
                app=app,
                partitions=fixed_partitions(layout, changelogs),
                rules=self._topics.rules(dict.fromkeys(limited)),
                dead_letters=next(iter(dead_letters), None),
                producer=producer_options(settings),
                timeout_s=settings.transaction_timeout_ms / 1000,
            ),
            slots=context.slots,
            on_error=context.spec.on_error,
            seeds=context.seeds,
        )


def fixed_partitions(layout: Layout, changelogs: Mapping[str, TopicFacts]) -> dict[str, int]:
    """How many partitions each changelog and repartition topic must have: as many as it has tasks."""
    return layout.topics_to_create | {
        changelogs[spec.name].topic: layout.plan.tasks(sub)
        for sub in layout.topology.sub_topologies
        for spec in sub.stores
        if spec.name in changelogs
    }
