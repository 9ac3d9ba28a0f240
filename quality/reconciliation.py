"""Checks that a batch holds exactly its line items of topic `hadoop-sink`, by count and sum per store.

Each commit of the export has the topic position that the table reaches. So the records of a batch are known,
and are read again from the topic itself, bypassing the export.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from quality.verdict import Outcome
from spark_apps.apps.records.masked import parse_hadoop_record
from spark_apps.apps.records.money import to_units
from spark_apps.records import PoisonRecordError
from state.changelog.position import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RULE = "completeness"

PartitionStore = tuple[int, str]
Reach = dict[int, tuple[int, int]]
"""The offsets that a batch covers: by partition the first offset, and the end, exclusive."""


class LineTopic(Protocol):
    """Where line items are read again."""

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        ...

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of the records from `start` to `end`, exclusive, in order."""
        ...


@dataclass(slots=True)
class LineTotals:
    """Line items by partition and store: how many, and the sum of TotalValue in 1/10,000."""

    lines: Counter[PartitionStore] = field(default_factory=Counter)
    units: Counter[PartitionStore] = field(default_factory=Counter)

    def add(self, where: PartitionStore, lines: int, units: int) -> None:
        """Adds line items."""
        self.lines[where] += lines
        self.units[where] += units


def reach_of(before: Position | None, after: Position, topic: str) -> Reach:
    """The offsets of a topic that the commits after `before` (None: from the beginning) and up to `after` cover."""
    known = Position() if before is None else before
    ranges = {at: (known.offset(topic, at) or 0, end) for at, end in after.offsets.get(topic, {}).items()}
    return {at: (start, end) for at, (start, end) in ranges.items() if start < end}


def expected_totals(reach: Reach, topic: LineTopic, *, max_record_bytes: int) -> LineTotals:
    """The expected totals of a batch with this reach, from the topic itself. Poison records don't count."""
    totals = LineTotals()
    for partition, (start, end) in reach.items():
        for key, value in topic.read(partition, start, end):
            try:
                line = parse_hadoop_record(key, value, max_record_bytes=max_record_bytes)
            except PoisonRecordError:
                continue
            totals.add((partition, line.store_id), 1, to_units(line.total_value))
    return totals


def staged_totals(batch: DataFrame) -> LineTotals:
    """The totals of a batch. Reads it once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    totals = LineTotals()
    sums = batch.groupBy("_partition", "StoreID").agg(F.count("*"), F.sum("TotalValue"))
    for partition, store, lines, total in sums.collect():
        totals.add((partition, store), lines, int((total or 0) * 10_000))
    return totals


def compare(expected: LineTotals, staged: LineTotals) -> tuple[Outcome, Outcome]:
    """Whether the numbers of lines and the totals are the same for each partition and store."""
    places = expected.lines.keys() | staged.lines.keys()
    lines = sum(abs(expected.lines[where] - staged.lines[where]) for where in places)
    stores = sum(expected.units[where] != staged.units[where] for where in places)
    return (
        _outcome("_offset", "Every line item of the topic that the batch reaches to is there, once.", lines),
        _outcome("StoreID", "Each store's TotalValue adds up to that in the topic; failing are stores.", stores),
    )


def source_is_gone() -> Outcome:
    """The failed outcome if the topic no longer has the batch's records."""
    meaning = "The line items of the batch are still in their topic, to compare with."
    return Outcome("reconcile", None, meaning, passed=False, rule=_RULE)


def not_announced() -> Outcome:
    """The failed outcome if a batch has rows and no commit says which offsets they came from."""
    meaning = "The batch was staged by the export, which says how far it came."
    return Outcome("reconcile", None, meaning, passed=False, rule=_RULE)


def _outcome(column: str, meaning: str, failing: int) -> Outcome:
    return Outcome("reconcile", column, meaning, failing == 0, failing or None, _RULE)
