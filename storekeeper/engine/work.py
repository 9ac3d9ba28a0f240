"""What the driver sends to its workers: the description of the app and of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe, described
from storekeeper.changelog.headers import ChangelogHeaders, SourceRanges
from storekeeper.changelog.reader import TopicFacts
from storekeeper.changelog.seeds import SeedSource
from storekeeper.engine.transaction import Slot, WriterPlan
from storekeeper.names import markers_topic
from storekeeper.stores.record_context import Header
from storekeeper.topology.failures import OnError
from storekeeper.topology.layout import Layout
from storekeeper.topology.plan import Plan
from storekeeper.topology.slots import Slots, slot_of
from storekeeper.topology.sub_topology import SubTopology


@dataclass(frozen=True)
class AppWork:
    """An app on its topics, as its driver found them.

    Attributes:
        app: its name.
        query_id: the id of its Spark query.
        describe: describes its topology.
        settings: those of the running generation.
        partitions: by topic that it reads, the number of partitions.
        changelogs: by store.
        global_topics: by the store of a global table, the topic that it is read from.
        schema_versions: by store, the version of the values that are written.
        writer: the settings that its tasks write with.
        slots: of its tasks, as the claim on its checkpoint has them.
        on_error: what becomes of a record that an operator can't process, unless the operator says otherwise.
        seeds: finds the tables that local stores may begin with.
    """

    app: str
    query_id: str
    describe: Describe
    settings: AppSettings
    partitions: Mapping[str, int]
    changelogs: Mapping[str, TopicFacts]
    global_topics: Mapping[str, TopicFacts]
    schema_versions: Mapping[str, int]
    writer: WriterPlan
    slots: Slots = field(default_factory=dict)
    on_error: OnError = OnError.DEAD_LETTER
    seeds: SeedSource | None = None

    def layout(self) -> Layout:
        """The app's tasks."""
        return Layout(Plan(described(self.app, self.describe, self.settings), self.partitions))

    def slot(self, sub: SubTopology, partition: int) -> Slot:
        """A task's transactional id and the place of its marker."""
        name, generation = slot_of(sub, self.slots), self.settings.generation
        return Slot(
            name=f"{self.app}-gen-{generation}-{name}-{partition}",
            markers=markers_topic(self.app, generation, name),
            partition=partition,
            key=self.query_id.encode(),
        )

    @property
    def store_root(self) -> Path:
        """The folder of the generation's local stores: `executor_state_dir` of this machine, else the driver's."""
        return (_own_state_dir() or self.settings.state_dir) / self.app / f"gen-{self.settings.generation}"

    def store_dir(self, sub: SubTopology, partition: int) -> Path:
        """Where a task keeps its local stores."""
        return self.store_root / slot_of(sub, self.slots) / str(partition)


@dataclass(frozen=True)
class BatchWork:
    """One batch of an app. `writes_outputs` is off in a generation that only catches up.

    `timed` has the numbers of the sub-topologies whose tasks take part without records, too: they may have timers.
    """

    app: AppWork
    batch_id: int
    source: SourceRanges
    batch_ms: int
    writes_outputs: bool
    timed: frozenset[int] = frozenset()

    def ranges(self, sub: SubTopology, partition: int) -> dict[str, tuple[int, int]]:
        """By topic, the offsets that a task reads itself, if there are any."""
        of_task = ((source.topic, self.source.get(source.topic, {}).get(partition)) for source in sub.sources)
        return {topic: ends for topic, ends in of_task if ends is not None and ends[0] < ends[1]}

    def takes_part(self, sub: SubTopology, partition: int) -> bool:
        """Whether a task runs, even if no shuffle brings it records."""
        return sub.number in self.timed or bool(self.ranges(sub, partition))

    def first_tasks(self, layout: Layout) -> list[tuple[SubTopology, int]]:
        """The tasks of stage 0 that take part."""
        return [task for task in layout.tasks(0) if self.takes_part(*task)]

    def source_of(self, topics: frozenset[str]) -> SourceRanges:
        """The offset ranges of the batch's input from some topics."""
        return {topic: ranges for topic, ranges in self.source.items() if topic in topics}

    def headers(self, store: str, topics: frozenset[str]) -> list[Header]:
        """The headers of a store's changes."""
        return ChangelogHeaders(
            generation=self.app.settings.generation,
            batch_id=self.batch_id,
            batch_ms=self.batch_ms,
            source=self.source_of(topics),
            schema_version=self.app.schema_versions.get(store, 1),
        ).encode()


@cache
def _own_state_dir() -> Path | None:
    return AppSettings().executor_state_dir
