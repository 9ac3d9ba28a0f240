"""Runs tasks of a topology on a real broker, without Spark: each batch is one task's, in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe, changelog_topics, described
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.engine.origins import Origins
from storekeeper.engine.own_topics import own_topics_of
from storekeeper.engine.runtime.topics import Topics, facts_of
from storekeeper.engine.stream import fixed_partitions, planned
from storekeeper.engine.task_run import TaskRun
from storekeeper.engine.transaction import WriterPlan, producer_options
from storekeeper.engine.work import AppWork, BatchWork
from storekeeper.topology.record_order import Ordered, runs_of
from storekeeper.topology.slots import NO_SLOTS, Slots

_BATCH = 1000


class TaskRuns:
    """The task of partition 0 of an app that reads one topic.

    Attributes:
        store: its store.
        changelog: the topic behind that.
        folder: where its local stores are.
    """

    def __init__(
        self, app: str, describe: Describe, topic: str, broker: Broker, run_dir: Path, *, slots: Slots = NO_SLOTS,
    ) -> None:  # fmt: skip
        self._topic = topic
        self.settings = settings = AppSettings(kafka_bootstrap=broker.bootstrap, run_dir=run_dir)
        topics = Topics(settings.kafka)
        self._layout = layout = planned(described(app, describe, settings), topics)
        for own in own_topics_of(app, layout, settings.generation, slots):
            topics.ensure_internal(own.name, own.partitions, own.config)
        logs = facts_of(changelog_topics(app, layout.topology, settings.generation), settings)
        written = {sink.topic for sub in layout.topology.sub_topologies for sink in sub.sinks} - layout.shuffles.keys()
        writer = WriterPlan(
            kafka=settings.kafka,
            app=app,
            partitions=fixed_partitions(layout, logs),
            rules=topics.rules([*written, *(log.topic for log in logs.values())]),
            dead_letters=None,
            producer=producer_options(settings),
            timeout_s=settings.transaction_timeout_ms / 1000,
        )
        self._work = AppWork(
            app=app,
            query_id="query",
            describe=describe,
            settings=settings,
            partitions=layout.plan.partitions,
            changelogs=logs,
            global_topics={},
            schema_versions={},
            writer=writer,
            slots=slots,
        )
        self._sub = layout.reader(topic)
        self.store = self._sub.stores[0]
        self.changelog = next(iter(logs.values())).topic
        self.folder = self._work.store_dir(self._sub, 0)

    def run(self, batch_id: int, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Runs a batch of records: key, value, timestamp in epoch milliseconds."""
        first = batch_id * _BATCH
        rows = [
            (self._topic, 0, first + at, time_ms, key, value, ()) for at, (key, value, time_ms) in enumerate(records)
        ]
        work = BatchWork(self._work, batch_id, {self._topic: {0: (first, first + len(rows))}}, 1, writes_outputs=True)
        TaskRun(work, self._layout, self._sub, 0, Origins(work.source))(Ordered(runs_of(rows), self._sub))

    def rows(self) -> dict[bytes, bytes]:
        """What the changelog holds, by key."""
        found: dict[bytes, bytes] = {}
        for message in read_topic(self.settings.kafka, self.changelog):
            key, value = message.key() or b"", message.value()
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found
