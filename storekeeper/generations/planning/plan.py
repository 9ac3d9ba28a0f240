"""Plans: of a platform against a description of what runs, and of one app's change or backfill, for its approver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from storekeeper.apps.registry import APPS, app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.topic_rules import TopicRule
from storekeeper.errors import ConfigurationError, InvalidArgumentError, StorageError
from storekeeper.generations.catalog import check_since
from storekeeper.generations.changes.contract import DeclaredStore, Description, RunningStore
from storekeeper.generations.changes.plan import (
    NOTHING_CHANGES,
    Change,
    Plan,
    Verdict,
    explain_plan,
    in_one_generation,
    plan_changes,
    plan_copy,
)
from storekeeper.generations.journal import BEGINNING
from storekeeper.generations.planning.declared import declared_stores, with_topologies
from storekeeper.generations.planning.describe import describe
from storekeeper.generations.planning.upgrade_check import with_schemas
from storekeeper.generations.status import check_changeable

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Input:
    """A source topic of a backfill. `records` counts offsets. It keeps records for `since_ms`; None for ever."""

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
    stores = [change.store for change in plan.changes if change.verdict is Verdict.MIGRATE]
    where = "its beginning" if since == BEGINNING else since
    accepted = (
        "rows that differ from the live ones are accepted: it takes over without a further question"
        if accept_differences
        else "rows that differ from the live ones stop the hand-over, unless `accept_differences` is set"
    )
    lines = (f"starts empty and reads the input again from {where}", *map(str, inputs), accepted)
    return Plan(
        tuple(
            _recomputed(change, since, lines, stores, accept_differences=accept_differences) for change in plan.changes
        )
    )


def _recomputed(
    change: Change, since: str, lines: Sequence[str], stores: Sequence[str], *, accept_differences: bool
) -> Change:
    if change.verdict is not Verdict.MIGRATE:
        return change
    kept = tuple(detail for detail in change.details if detail != NOTHING_CHANGES)
    details = (*lines, *kept) if change.store == stores[0] else (lines[0], *kept)
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


def planned_change(
    app: str,
    migrations: Sequence[str],
    partitions: int,
    *,
    copy: bool,
    since: str | None = None,
    accept_differences: bool = False,
) -> Plan:
    """The plan of a new generation of an app.

    Args:
        app: the app's name.
        migrations: names, in order.
        partitions: of the new changelogs; 0 leaves them as they are.
        copy: whether to plan a generation even if nothing changes.
        since: from where a backfill reads the input; None starts with the live rows.
        accept_differences: whether a backfill takes over although its rows differ.

    Raises:
        ConfigurationError: the app can't have generations or has not begun yet; or as `plan_of_app`.
    """
    spec = app_named(app)
    check_changeable(spec)
    stores = [store.name for store in spec.stores]
    settings = AppSettings.of_platform()
    running = describe(settings, SystemClock()).stores
    if not running.keys() >= set(stores):
        msg = f"{app} has not begun yet: there is nothing to change; start it with the version that you want"
        raise ConfigurationError(msg)
    numbers = dict.fromkeys(stores, partitions) if partitions else {}
    declared = [each for each in declared_stores(numbers) if each.store in stores]
    plan = plan_of_app(declared, running, migrations, copy=copy or since is not None)
    if since is None:
        return plan
    inputs = inputs_of(spec, spec.settings(settings), since)
    return as_backfill(plan, since, inputs, accept_differences=accept_differences)


def plan_answer(app: str, plan: Plan) -> dict[str, Any]:
    """A plan as an answer; `text` is Markdown."""
    return {
        "app": app,
        "stores": [change.store for change in plan.changes],
        "verdict": plan.verdict,
        "conf": next((dict(change.conf) for change in plan.changes if change.conf), {}),
        "reasons": [detail for change in plan.changes for detail in change.details],
        "text": explain_plan(plan),
    }


def plan_of_app(
    declared: Sequence[DeclaredStore],
    running: Mapping[str, RunningStore],
    migrations: Sequence[str],
    *,
    copy: bool = False,
) -> Plan:
    """The plan of the named migrations for an app's stores; with `copy`, also if nothing changes. `running` are the
    same stores as they run. `migrations` may be of several of them.

    Raises:
        ConfigurationError: a migration is unknown or made already, or one in between is left out.
    """
    of_app = [step.name for store in declared for step in store.steps]
    unknown = [name for name in migrations if name not in of_app]
    if unknown:
        pending = [name for store in declared for name in _pending(store, running[store.store])]
        rest = f"those of {declared[0].app} that are not made are {_chain(pending)}"
        raise ConfigurationError(f"there is no migration {unknown[0][:140]!r}: {rest}")
    planned = [_as_wanted(store, running[store.store], migrations) for store in declared]
    plan = plan_changes(planned, Description(0, {store.store: running[store.store] for store in declared}))
    if copy and all(change.verdict is Verdict.UNCHANGED for change in plan.changes):
        return Plan(in_one_generation([plan_copy(store, running[store.store]) for store in planned]))
    return plan


def _as_wanted(store: DeclaredStore, running: RunningStore, migrations: Sequence[str]) -> DeclaredStore:
    """The store with only its made or named migrations.

    Raises:
        ConfigurationError: one is made already, or one in between is left out.
    """
    own = [step.name for step in store.steps]
    named = [name for name in migrations if name in own]
    pending = _pending(store, running)
    ran = [name for name in named if name in running.migrations]
    if ran:
        msg = f"migration {ran[0]} has already run: the migrations of {store.store} that have not are {_chain(pending)}"
        raise ConfigurationError(msg)
    if named != pending[: len(named)]:
        msg = f"migrations build on one another: name them in the order {_chain(pending)}, and leave none out"
        raise ConfigurationError(msg)
    kept = {*running.migrations, *named}
    return replace(store, steps=tuple(step for step in store.steps if step.name in kept))


def _pending(store: DeclaredStore, running: RunningStore) -> list[str]:
    return [step.name for step in store.steps if step.name not in running.migrations]


def _chain(names: Sequence[str]) -> str:
    return " -> ".join(names) or "none"


def plan_against(description: Description, partitions: Mapping[str, int]) -> Plan:
    """The plan from a description to the current code. `partitions` are new numbers, by store.

    Raises:
        SchemaRegistryUnavailableError: an app has schemas, and their registry doesn't answer.
        ConfigurationError: an app has schemas, and no registry is set.
    """
    plan = plan_changes(declared_stores(partitions), description)
    return with_schemas(with_topologies(plan, description), description, APPS)


def described_now(settings: AppSettings) -> Description:
    """The description of what runs in the run directory of the settings."""
    from storekeeper.generations.planning.describe import describe  # noqa: PLC0415 (it takes a second, and a plan of a file needs none)

    return describe(settings, SystemClock())


def read_description(path: Path) -> Description:
    """The description in a file.

    Raises:
        StorageError: it can't be read.
        InvalidArgumentError: it isn't a description.
    """
    try:
        return Description.decode(path.read_bytes())
    except OSError as error:
        msg = f"can't read {path} ({error.strerror}): write one with `storekeeper plan --export {path}`"
        raise StorageError(msg) from error


def parse_partitions(texts: Sequence[str]) -> dict[str, int]:
    """Reads `store=number`, each once.

    Raises:
        InvalidArgumentError: if one is not of this form.
    """
    counts: dict[str, int] = {}
    for text in texts:
        store, _, number = text.partition("=")
        if not store or store in counts or not (number.isascii() and number.isdigit() and 0 < int(number) <= 10_000):
            raise InvalidArgumentError(f"{text[:100]!r} is not of the form store=partitions")
        counts[store] = int(number)
    return counts
