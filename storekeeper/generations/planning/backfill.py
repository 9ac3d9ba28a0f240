"""What a backfill will do, in words, for the person who approves it: it reads the input again, and copies no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import DAY_MS
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.topic_rules import TopicRule
from storekeeper.generations.catalog import check_since
from storekeeper.generations.changes.plan import NOTHING_CHANGES, Change, Plan, Verdict
from storekeeper.generations.journal import BEGINNING

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Input:
    """A source topic of a backfill.

    Attributes:
        topic: its name.
        records: how many offsets are read.
        since_ms: how long it keeps records; None for ever.
        compacted: whether it keeps only the newest record of each key.
    """

    topic: str
    records: int
    since_ms: int | None
    compacted: bool

    def __str__(self) -> str:
        kept = "for ever" if self.since_ms is None else f"for {_duration(self.since_ms)}: older ones are gone"
        kept = "the newest record of each key" if self.compacted else f"records {kept}"
        return f"input {self.topic}: {self.records:,} records are read; the topic keeps {kept}"


def inputs_of(spec: AppSpec, settings: AppSettings, since: str) -> list[Input]:
    """What a backfill reads.

    Raises:
        GenerationRefusedError: `since` is neither `beginning` nor a time with its zone.
        BrokerUnavailableError: Kafka doesn't answer.
    """
    check_since(since)
    topics, names = Topics(settings.kafka), list(spec.sources(settings))
    bounds = topics.bounds(names)
    start = bounds.start
    if since != BEGINNING:
        start = topics.offsets_at(names, round(datetime.fromisoformat(since).timestamp() * 1000))
    rules, kept = topics.rules(names), topics.retention_ms(names)
    return [_input(name, start.offsets, bounds.end.offsets, rules[name], kept[name]) for name in names]


def as_backfill(plan: Plan, since: str, inputs: Iterable[Input], *, accept_differences: bool) -> Plan:
    """The plan of a new generation, as one that reads the input again.

    Args:
        plan: of a copy, or of migrations.
        since: from where it reads: `beginning`, or a time.
        inputs: what it reads.
        accept_differences: whether it takes over although its rows differ from the live ones.
    """
    made = [change.store for change in plan.changes if change.verdict is Verdict.MIGRATE]
    where = "its beginning" if since == BEGINNING else since
    accepted = (
        "rows that differ from the live ones are accepted: it takes over without a further question"
        if accept_differences
        else "rows that differ from the live ones stop the hand-over, unless `accept_differences` is set"
    )
    lines = (f"starts empty and reads the input again from {where}", *map(str, inputs), accepted)
    return Plan(
        tuple(_recomputed(change, since, lines, made, accept_differences=accept_differences) for change in plan.changes)
    )


def _recomputed(
    change: Change, since: str, lines: Sequence[str], made: Sequence[str], *, accept_differences: bool
) -> Change:
    if change.verdict is not Verdict.MIGRATE:
        return change
    kept = tuple(detail for detail in change.details if detail != NOTHING_CHANGES)
    details = (*lines, *kept) if change.store == made[0] else (lines[0], *kept)
    conf = {**change.conf, "since": since, "accept_differences": accept_differences} if change.conf else {}
    # Its time depends on the input and not on the rows.
    return replace(change, details=details, conf=conf, minutes=None)


def _input(
    topic: str,
    start: Mapping[str, Mapping[int, int]],
    end: Mapping[str, Mapping[int, int]],
    rule: TopicRule,
    kept_ms: int | None,
) -> Input:
    records = sum(max(0, last - start[topic].get(partition, last)) for partition, last in end[topic].items())
    return Input(topic, records, kept_ms, compacted=rule.keys_required)


def _duration(milliseconds: int) -> str:
    if milliseconds >= DAY_MS:
        return f"{milliseconds / DAY_MS:.3g} days"
    return f"{milliseconds / _HOUR_MS:.3g} hours"
