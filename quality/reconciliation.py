"""Whether a batch holds exactly the line items of the invoices that it reaches to: counted and summed up per store.

Each commit of the export says how far it came: per partition of `hadoop-sink` and of `pos`, the offset and line that it
reached last. So the invoices between the batch's first and last place are known, and are read again from `pos` itself,
past the fan-out, the topic between, and the export. An invoice's store decides its partition of `hadoop-sink`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from quality.verdict import Outcome
from spark_apps.hadoop_export.progress import ExportProgress
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.leaks import masked_code
from spark_apps.records.money import to_units
from spark_apps.records.poison import PoisonRecordError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RULE = "completeness"
_START = (-1, -1)

Place = tuple[int, int]
SourceStore = tuple[str, str]


class InvoiceTopic(Protocol):
    """Where invoices are read again."""

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        ...

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the records from `start` to `end`, exclusive, in order."""
        ...

    def sink_partition(self, store: str) -> int:
        """The partition of the masked line items that a store's are written to."""
        ...


@dataclass(slots=True)
class LineTotals:
    """Line items by source partition (`pos/0`) and store: how many, and the sum of TotalValue in 1/10,000."""

    lines: Counter[SourceStore] = field(default_factory=Counter)
    units: Counter[SourceStore] = field(default_factory=Counter)

    def add(self, where: SourceStore, lines: int, units: int) -> None:
        """Adds line items."""
        self.lines[where] += lines
        self.units[where] += units


@dataclass(frozen=True, slots=True)
class Reach:
    """What a batch covers of one partition of invoices: by partition of the sink, after which place and up to which."""

    source: str
    ranges: Mapping[int, tuple[Place, Place]]

    @property
    def partition(self) -> int:
        """The partition of the invoices."""
        return int(self.source.rpartition("/")[2])

    @property
    def first_offset(self) -> int:
        """The first offset that may have line items in the batch."""
        return max(0, min(after[0] for after, _ in self.ranges.values()))

    @property
    def end_offset(self) -> int:
        """The offset behind the last one."""
        return max(upto[0] for _, upto in self.ranges.values()) + 1


def reach_of(before: ExportProgress | None, after: ExportProgress) -> list[Reach]:
    """What the commits behind `before` (None: from the beginning) and up to `after` cover, by source partition."""
    ranges: dict[str, dict[int, tuple[Place, Place]]] = {}
    for sink, sources in after.places.items():
        known = {} if before is None else before.places.get(sink, {})
        for source, place in sources.items():
            start = known.get(source, _START)
            if place > start:
                ranges.setdefault(source, {})[sink] = (start, place)
    return [Reach(source, ranges[source]) for source in sorted(ranges)]


def expected_totals(
    reach: Iterable[Reach], topic: InvoiceTopic, *, max_record_bytes: int, code_digits: int
) -> LineTotals:
    """What a batch with this reach must hold, from the invoices themselves. Poison records have no line items."""
    totals = LineTotals()
    for part in reach:
        for offset, key, value in topic.read(part.partition, part.first_offset, part.end_offset):
            try:
                invoice = parse_invoice(key, value, max_record_bytes=max_record_bytes)
            except PoisonRecordError:
                continue
            store = masked_code(invoice.store_id, code_digits)
            after, upto = part.ranges.get(topic.sink_partition(store), (_START, _START))
            for number, line in enumerate(invoice.line_items):
                if after < (offset, number) <= upto:
                    totals.add((part.source, store), 1, to_units(line.total_value))
    return totals


def staged_totals(batch: DataFrame) -> LineTotals:
    """What a batch holds. Reads it once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    totals = LineTotals()
    sums = batch.groupBy("_source", "StoreID").agg(F.count("*"), F.sum("TotalValue"))
    for source, store, lines, total in sums.collect():
        totals.add((source, store), lines, int((total or 0) * 10_000))
    return totals


def compare(expected: LineTotals, staged: LineTotals) -> tuple[Outcome, Outcome]:
    """Whether the numbers of lines and the totals are the same for each partition of invoices and store."""
    places = expected.lines.keys() | staged.lines.keys()
    lines = sum(abs(expected.lines[where] - staged.lines[where]) for where in places)
    stores = sum(expected.units[where] != staged.units[where] for where in places)
    return (
        _outcome("_source_line", "Every line item of the invoices that the batch reaches to is there, once.", lines),
        _outcome("StoreID", "Each store's TotalValue adds up to that of its invoices; failing are stores.", stores),
    )


def source_is_gone() -> Outcome:
    """That there is nothing to compare with."""
    meaning = "The invoices of the batch are still in their topic, to compare with."
    return Outcome("reconcile", None, meaning, passed=False, rule=_RULE)


def not_announced() -> Outcome:
    """That a batch has rows of which no commit says where they came from."""
    meaning = "The batch was staged by the export, which says how far it came."
    return Outcome("reconcile", None, meaning, passed=False, rule=_RULE)


def _outcome(column: str, meaning: str, failing: int) -> Outcome:
    return Outcome("reconcile", column, meaning, failing == 0, failing or None, _RULE)
