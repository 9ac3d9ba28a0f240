"""How a topology's tasks are laid out over the stages of a batch. Pure.

A task reads its partition of each topic of its sub-topology itself. What only reads topics runs in stage 0. All others
gather, beside that, records from the shuffle behind an earlier stage: stage n what the stages before it pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from storekeeper.errors import ConfigurationError
from storekeeper.topology.operators.process import Process
from storekeeper.topology.operators.repartition import RepartitionSource
from storekeeper.topology.plan import Plan, Topology
from storekeeper.topology.sub_topology import SubTopology


@dataclass(frozen=True)
class Layout:
    """The tasks of a topology, given its topics' numbers of partitions.

    Attributes:
        plan: the topology with the numbers of partitions.
        topics: those that tasks read, with repartition topics, but without those that a shuffle replaces.
        shuffles: by repartition topic that a shuffle replaces, the sub-topology that gathers the shuffle.
        stages: by the number of a sub-topology, its stage. Sub-topologies of global tables have none.
    """

    plan: Plan
    topics: tuple[str, ...] = field(init=False)
    shuffles: Mapping[str, SubTopology] = field(init=False)
    stages: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        topology = self.plan.topology
        readers = {source.topic: sub for sub in self.running for source in sub.sources}
        shuffles = {topic: readers[topic] for topic in topology.shuffled_topics}
        object.__setattr__(self, "shuffles", shuffles)
        object.__setattr__(self, "topics", tuple(topic for topic in readers if topic not in shuffles))
        stages: dict[int, int] = {}
        for sub in self.running:
            self._stage(sub, stages)
        object.__setattr__(self, "stages", stages)

    @property
    def topology(self) -> Topology:
        """The topology."""
        return self.plan.topology

    @property
    def topics_to_create(self) -> dict[str, int]:
        """The repartition topics that no shuffle replaces, with their numbers of partitions."""
        return {topic: self.plan.partitions[topic] for topic in self.topology.repartition_topics - self.shuffles.keys()}

    @property
    def last_stage(self) -> int:
        """The number of the last stage: 0 if nothing is gathered."""
        return max(self.stages.values(), default=0)

    def sub_topologies(self, stage: int) -> list[SubTopology]:
        """The sub-topologies of a stage."""
        return [sub for sub in self.running if self.stages[sub.number] == stage]

    def tasks(self, stage: int) -> list[tuple[SubTopology, int]]:
        """The tasks of a stage, sub-topology and partition: a task's place in the list is its Spark partition."""
        return [(sub, partition) for sub in self.sub_topologies(stage) for partition in range(self.plan.tasks(sub))]

    def place(self, sub: SubTopology, partition: int) -> int:
        """A task's place in its stage."""
        return self.tasks(self.stages[sub.number]).index((sub, partition))

    def origins(self, sub: SubTopology) -> frozenset[str]:
        """The topics whose records reach a sub-topology within one batch: its own, and those before its shuffles."""
        above = [self.origins(self._writer(source)) for source in sub.sources
                 if source.topic in self.shuffles and isinstance(source, RepartitionSource)]  # fmt: skip
        return frozenset(source.topic for source in sub.sources if source.topic not in self.shuffles).union(*above)

    def inputs(self, sub: SubTopology) -> frozenset[str]:
        """The topics whose records reach a sub-topology, whatever repartitions are between."""
        found, waiting, seen = set[str](), [sub], set[int]()
        while waiting:
            seen.add((each := waiting.pop()).number)
            found |= {source.topic for source in each.sources if not isinstance(source, RepartitionSource)}
            above = [self._writer(source) for source in each.sources if isinstance(source, RepartitionSource)]
            waiting += [writer for writer in above if writer.number not in seen]
        return frozenset(found)

    def reader(self, topic: str) -> SubTopology:
        """The sub-topology that reads a topic, or the shuffle that stands for it."""
        return next(sub for sub in self.running if any(source.topic == topic for source in sub.sources))

    @property
    def running(self) -> list[SubTopology]:
        """The sub-topologies that have stages: all but those of global tables."""
        return [sub for sub in self.plan.topology.sub_topologies if not sub.is_global]

    @property
    def with_processors(self) -> frozenset[int]:
        """The numbers of the sub-topologies whose tasks may have timers. Which of them have some, a task finds out."""
        return frozenset(sub.number for sub in self.running if any(isinstance(node, Process) for node in sub.nodes))

    def _stage(self, sub: SubTopology, stages: dict[int, int]) -> int:
        if sub.number not in stages:
            above = [self._stage(self._writer(source), stages) for source in sub.sources
                     if source.topic in self.shuffles and isinstance(source, RepartitionSource)]  # fmt: skip
            stages[sub.number] = 1 + max(above, default=-1)
        return stages[sub.number]

    def _writer(self, source: RepartitionSource) -> SubTopology:
        return next(sub for sub in self.running if source.sink in sub.nodes)


def check_runnable(topology: Topology) -> None:
    """Refuses a topology that no engine can run.

    Raises:
        ConfigurationError: it reads nothing.
    """
    if not any(sub.sources for sub in topology.sub_topologies if not sub.is_global):
        msg = f"the topology of {topology.graph.app} reads no topic: begin it with stream() or table()"
        raise ConfigurationError(msg)
