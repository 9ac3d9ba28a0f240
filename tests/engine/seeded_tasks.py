"""A topology whose tasks are soon far behind and log to a file. Spark's workers import this module with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from pyspark import TaskContext

from storekeeper.apps.settings import AppSettings
from storekeeper.engine import local_store
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.topology import Store, StreamsBuilder, tumbling
from tests.engine.topologies import Totals

if TYPE_CHECKING:
    from storekeeper.snapshots.seeds import TableSeed

EVENTS = "seeded-events"


@dataclass(frozen=True, slots=True)
class LoggedTables(SeedTables):
    """Tables; a worker that asks for one has its log in a file beside them."""

    def newest(self, store: str, *report: Any) -> TableSeed | None:
        """The newest version of a store's table."""
        file = self.log.open("a")  # for as long as the worker lives
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(file))
        return SeedTables.newest(self, store, *report)

    @property
    def log(self) -> Path:
        """The log of all workers."""
        return Path(self.seals).parent / "workers.log"


def described(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals and counts of windows by key."""
    events = streams.stream(EVENTS, int).group_by_key()
    events.aggregate(Totals, Totals.plus, store=Store("totals", Totals))
    events.windowed_by(tumbling(timedelta(minutes=1))).count(store=Store("windows", int, retention=timedelta(days=9)))


def soon_far_behind(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The same, where a hundred records are many."""
    if TaskContext.get() is not None:  # a test's own process stays as it is
        vars(local_store)["FAR_BEHIND_RECORDS"] = 100
    described(streams, settings)
