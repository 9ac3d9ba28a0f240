"""A topology whose tasks are killed at a step, in Spark's Python workers. A worker imports this module with it."""

from __future__ import annotations

from pathlib import Path

from pyspark import TaskContext

from harness.crashes.armed import Armed
from harness.crashes.dying_tasks import become_mortal
from storekeeper.apps.settings import AppSettings
from storekeeper.topology import StreamsBuilder
from tests.engine import topologies


def armed_in(run_dir: Path) -> Armed:
    """The kills that wait for the tasks of an app with this run directory."""
    return Armed(run_dir / "armed", "")


def shuffled(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology `shuffled`, whose tasks may die."""
    _become_mortal(settings)
    topologies.shuffled(streams, settings)


def kept_for_a_time(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topologies `passing` and `versioned`, whose tasks may die."""
    _become_mortal(settings)
    topologies.passing(streams, settings)
    topologies.versioned(streams, settings)


def _become_mortal(settings: AppSettings) -> None:
    if TaskContext.get() is not None:  # a test's own process stays as it is
        become_mortal(armed_in(settings.run_dir))
