"""A topology as the plain driver runs it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_apps.processor.plans import task_plan
from spark_apps.processor.processor import Processor
from spark_apps.processor.records import OutputRecord, SourceRecord
from spark_apps.processor.state import TaskState
from spark_apps.processor.task import TaskPlan, by_partition, run_task
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.errors import ConfigurationError


class Topology(Protocol):
    """What becomes of a batch's records. Each task has a state of its own."""

    def tasks(self, records: Sequence[SourceRecord]) -> Mapping[int, Sequence[SourceRecord]]:
        """The records of each task."""
        ...

    def run(self, state: TaskState, records: Sequence[SourceRecord]) -> list[OutputRecord]:
        """Runs one task on one batch, and writes its state."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessorTopology:
    """A `Processor`: one task a source partition."""

    processor: Processor
    plan: TaskPlan

    def tasks(self, records: Sequence[SourceRecord]) -> Mapping[int, Sequence[SourceRecord]]:
        """The records by partition."""
        return by_partition(records)

    def run(self, state: TaskState, records: Sequence[SourceRecord]) -> list[OutputRecord]:
        """Runs one task on one batch."""
        return run_task(self.processor, self.plan, state, records)


def topology_of(spec: AppSpec, settings: AppSettings, partitions: int) -> Topology:
    """The topology of an app, by the module that its spec names.

    That module has either `processor(settings)` or `topology(settings)`.

    Raises:
        ConfigurationError: the app's spec names no such module.
    """
    if spec.topology is None:
        msg = f"the spec of {spec.name} names no topology: give it the module that has `processor` or `topology`"
        raise ConfigurationError(msg)
    module = importlib.import_module(spec.topology)
    if hasattr(module, "topology"):
        made: Topology = module.topology(settings)
        return made
    plan = task_plan(spec, settings, {store.changelog_topic: partitions for store in spec.stores})
    return ProcessorTopology(module.processor(settings), plan)
