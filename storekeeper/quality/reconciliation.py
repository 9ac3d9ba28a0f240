"""Checks that rows are those of a topic or of another table, by count and sum in each group.

Each commit of a staged table has the topic position that the table reaches. So the records of a batch are known, and
are read again from the topic itself, bypassing the app.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from storekeeper.apps.checked_table import WithTable, WithTopic
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.bounded_reader import first_offset, read_range
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.errors import ChangelogError
from storekeeper.quality.errors import ValidationError
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RULE = "completeness"

Group = tuple[Any, ...]
Reach = dict[int, tuple[int, int]]
"""The offsets that a batch covers: by partition the first offset, and the end, exclusive."""


@dataclass(slots=True)
class Totals:
    """Rows by group: how many, and the sum of a column; 0 if none is summed up."""

    rows: Counter[Group] = field(default_factory=Counter)
    sums: dict[Group, Decimal] = field(default_factory=dict)

    def add(self, group: Group, rows: int, amount: Decimal | int = 0) -> None:
        """Adds rows to a group."""
        self.rows[group] += rows
        self.sums[group] = self.sums.get(group, Decimal(0)) + amount

    def sum(self, group: Group) -> Decimal:
        """The sum of a group; 0 if it has no rows."""
        return self.sums.get(group, Decimal(0))

    @staticmethod
    def of(row: Iterable[Sequence[Any]]) -> Totals:
        """The totals of rows that hold the group's columns, the number of rows, and the sum."""
        totals = Totals()
        for *group, rows, amount in row:
            if rows:
                totals.add(tuple(group), rows, amount or 0)
        return totals


def reach_of(before: Position | None, after: Position, topic: str, first: Callable[[int], int]) -> Reach:
    """The offsets of a topic that the commits after `before` (None: from the beginning) and up to `after` cover.

    A partition that `before` lacks has been read from the first record that there was. `first` says which there is.
    """
    known = {} if before is None else before.offsets.get(topic, {})
    ranges = {at: (known[at] if at in known else first(at), end) for at, end in after.offsets.get(topic, {}).items()}
    return {at: (start, end) for at, (start, end) in ranges.items() if start < end}


def expected_totals(rule: WithTopic, reach: Reach, topic: Topic, settings: AppSettings) -> Totals:
    """The expected totals of a batch with this reach, from the topic itself. Records that become no row don't count.

    Raises:
        ValidationError: the declared function `row` fails; the message has no values.
    """
    totals = Totals()
    for partition, (start, end) in reach.items():
        for key, value in topic.read(partition, start, end):
            try:
                _add_record(totals, rule, partition, rule.row(key, value, settings))
            except Exception as error:  # whatever somebody's function raises
                msg = f"the function `row` that is declared with topic {rule.topic} fails ({type(error).__name__})"
                raise ValidationError(msg) from error
    return totals


def _add_record(totals: Totals, rule: WithTopic, partition: int, row: Mapping[str, Any] | None) -> None:
    if row is not None:
        known = {"_partition": partition, **row}
        group = tuple(known[name] for name in rule.group_by)
        totals.add(group, 1, 0 if rule.sum is None else known[rule.sum] or 0)


def totals_of(rows: DataFrame, rule: WithTopic | WithTable) -> Totals:
    """The totals of rows. Reads them once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    amount = F.lit(0) if rule.sum is None else F.sum(rule.sum)
    return Totals.of(rows.groupBy(*rule.group_by).agg(F.count("*"), amount).collect())


def compare(rule: WithTopic | WithTable, expected: Totals, actual: Totals) -> list[Outcome]:
    """Whether numbers of rows, and sums if the rule has one, are the same in each group."""
    groups = expected.rows.keys() | actual.rows.keys()
    rows = sum(abs(expected.rows[group] - actual.rows[group]) for group in groups)
    if isinstance(rule, WithTopic):
        meaning = f"Each record of topic {rule.topic} in the batch's offset range is there exactly once."
    else:
        meaning = f"There are as many rows as in table {rule.table}{_each(rule)}."
    outcomes = [_outcome(None, meaning, rows)]
    if rule.sum is not None:
        sums = sum(expected.sum(group) != actual.sum(group) for group in groups)
        meaning = f"The sum of {rule.sum} equals that of {rule.other}{_each(rule)}; each failing row is a group."
        outcomes.append(_outcome(rule.sum, meaning, sums))
    return outcomes


def other_is_gone(rule: WithTopic | WithTable) -> list[Outcome]:
    """The failed outcome if the topic or table does not exist any more, or not yet."""
    return [_failed(f"The batch can be compared with {rule.other}.")]


def not_announced(rule: WithTopic) -> list[Outcome]:
    """The failed outcome if a batch has rows and no commit says which offsets they came from."""
    return [_failed(f"The batch's commits say how far they reach in topic {rule.topic}.")]


def _each(rule: WithTopic | WithTable) -> str:
    return f" for each {', '.join(rule.group_by)}" if rule.group_by else ""


def _failed(meaning: str) -> Outcome:
    return Outcome("reconcile", None, meaning, passed=False, rule=RULE)


def _outcome(column: str | None, meaning: str, failing: int) -> Outcome:
    return Outcome("reconcile", column, meaning, failing == 0, failing or None, RULE)


class Topic:
    """Reads a topic from the broker. Not thread-safe.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer, and nothing is decided then.
    """

    def __init__(self, settings: QualitySettings, topic: str) -> None:
        self._kafka = settings.kafka
        self._topic = topic

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        with self._reading():
            return first_offset(self._kafka, self._topic, partition)

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of the records from `start` to `end`, exclusive, in order."""
        with self._reading():
            for message in read_range(self._kafka, self._topic, partition, start, end):
                yield message.key(), message.value()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ChangelogError as error:
            raise BrokerUnavailableError(f"topic {self._topic} can't be read: {error}") from error
