"""Compares declared stores and topics with running ones and plans the changes, as data and in words. Pure.

A change is harmless, or done by a new generation (`migrate`), or it would orphan or break state (`breaks`): then a
deployment must not go ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from storekeeper.errors import ConfigurationError
from storekeeper.generations.changes.contract import (
    BY_SCHEMA,
    AppTopology,
    DeclaredStore,
    Description,
    Fields,
    RunningStore,
    Step,
)
from storekeeper.topology.slots import continued

_FIXED_MINUTES = 3.0
"""Two Spark sessions that start, and the hand-over itself."""
_KEYS_PER_MINUTE = 400_000
"""A snapshot that is written, a seed that is made and loaded, and two changelogs that are compared."""


class Verdict(StrEnum):
    """How a change is made."""

    UNCHANGED = "unchanged"
    """Nothing is to be done."""
    NEW = "new"
    """A store that doesn't run yet."""
    REBUILD = "rebuild"
    """Nodes rebuild an index of theirs when they start; rows stay."""
    MIGRATE = "migrate"
    """A new generation of the app makes it, while reads and writes go on."""
    READ_ONLY = "read-only"
    """Its app is not configured any more: its rows stay, and nothing writes to it."""
    BREAKS = "breaks"
    """State would be orphaned, or couldn't be read any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """The planned change of one store.

    Attributes:
        store: the store.
        verdict: see `Verdict`.
        details: sentences that say what changes, and for BREAKS what to do instead.
        keys, size_bytes: the store's size; None if it isn't known.
        minutes: an estimate, for MIGRATE; None if the keys aren't known.
        conf: what to trigger the DAG `migrate_state` with, for MIGRATE; empty if another store's does it.
    """

    store: str
    verdict: Verdict
    details: tuple[str, ...] = ()
    keys: int | None = None
    size_bytes: int | None = None
    minutes: int | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of all stores, sorted by store."""

    changes: tuple[Change, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on all changes: BREAKS if any breaks, else MIGRATE if any migrates, else UNCHANGED."""
        verdicts = {change.verdict for change in self.changes}
        return next((it for it in (Verdict.BREAKS, Verdict.MIGRATE) if it in verdicts), Verdict.UNCHANGED)

    @property
    def breaks(self) -> bool:
        """Whether any of them would orphan or break state."""
        return any(change.verdict is Verdict.BREAKS for change in self.changes)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON's own types."""
        return {"breaks": self.breaks, "changes": [asdict(change) for change in self.changes]}


def plan_changes(declared: Iterable[DeclaredStore], running: Description) -> Plan:
    """Compares every store that is declared or runs. One generation makes all changes of an app's stores."""
    by_name = {store.store: store for store in declared}
    changes: list[Change] = []
    apps = {store.app for store in by_name.values()}
    for name in sorted(by_name.keys() | running.stores.keys()):
        declared_store, running_store = by_name.get(name), running.stores.get(name)
        if running_store is None:
            details = "It begins empty when its app first runs, with the input that there is."
            changes.append(Change(name, Verdict.NEW, (details,)))
        elif declared_store is None and running_store.app not in apps:
            changes.append(_read_only(running_store, by_name.values(), running))
        elif declared_store is None:
            changes.append(_orphaned(running_store, by_name.values(), running))
        else:
            changes.append(_change(declared_store, running_store))
    return Plan(in_one_generation(changes))


def in_one_generation(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Merges the changes of each app: only its first store keeps a `conf`, which triggers all of them.

    All of an app's stores get the same number of partitions, if any does.
    """
    details: list[Change] = []
    for change in changes:
        migrated = [other for other in changes if other.conf and other.conf["app"] == change.conf.get("app")]
        if len(migrated) < 2:
            details.append(change)
        elif change is migrated[0]:
            names = [name for other in migrated for name in other.conf["migrations"]]
            conf = {item: value for other in migrated for item, value in other.conf.items()} | {"migrations": names}
            details.append(replace(change, conf=conf))
        else:
            note = f"made by the same generation of {change.conf['app']} as {migrated[0].store}"
            details.append(replace(change, details=(*change.details, note), conf={}))
    return tuple(details)


NOTHING_CHANGES = "Nothing changes: its rows are copied."


def plan_copy(declared: DeclaredStore, running: RunningStore) -> Change:
    """A new generation made of the store's rows alone, if it runs as declared; else as `plan_changes`."""
    change = _change(declared, running)
    if change.verdict is not Verdict.UNCHANGED:
        return change
    copied = _migration(declared, running, [], None)
    if copied.verdict is not Verdict.MIGRATE:
        return copied
    return replace(copied, details=(NOTHING_CHANGES,), conf={**copied.conf, "copy": True})


def _read_only(orphan: RunningStore, declared: Iterable[DeclaredStore], running: Description) -> Change:
    details = (
        f"No app {orphan.app} is configured: {_count(orphan.keys)} in {orphan.topic} stay, nodes answer from them, and "
        f"nothing writes.{_renamed(orphan, declared, running)} `storekeeper app retire {orphan.app}` ends that."
    )
    return Change(orphan.store, Verdict.READ_ONLY, (details,), orphan.keys, orphan.size_bytes)


def _renamed(orphan: RunningStore, declared: Iterable[DeclaredStore], running: Description) -> str:
    like = [
        store.store
        for store in declared
        if store.store not in running.stores and store.kind == orphan.kind and store.fields == orphan.fields
    ]
    return f" Was it renamed to {like[0]}? Then it would begin empty." if like else ""


def _orphaned(orphan: RunningStore, declared: Iterable[DeclaredStore], running: Description) -> Change:
    hint = _renamed(orphan, declared, running)
    details = (
        f"No app declares it any more: {_count(orphan.keys)} in {orphan.topic} would belong to nobody.{hint} "
        "Declare it again, or take it out of the description once its topic and tables are deleted on purpose."
    )
    return _broken(orphan, [details])


def _change(declared: DeclaredStore, running: RunningStore) -> Change:
    broken = [*_moved(declared, running), *_broken_schema(declared, running)]
    if broken:
        return _broken(running, broken)
    pending = [step for step in declared.steps if step.to_version > running.version]
    partitions = _other_partitions(declared, running)
    if pending or partitions is not None:
        return _migration(declared, running, pending, partitions)
    if declared.score_field != running.score_field:
        details = (
            f"It is ranked by {declared.score_field} instead of {running.score_field}: nodes rank again at their start."
        )
        return Change(declared.store, Verdict.REBUILD, (details,), running.keys, running.size_bytes)
    return Change(declared.store, Verdict.UNCHANGED, (), running.keys, running.size_bytes)


def _moved(declared: DeclaredStore, running: RunningStore) -> list[str]:
    """Changes that would orphan existing state."""
    details: list[str] = []
    if declared.app != running.app:
        details.append(
            f"Its app is called {declared.app} instead of {running.app}: checkpoint and state would be orphaned. "
            "Keep the app's name; its title may change."
        )
    if declared.topic != running.topic:
        details.append(
            f"Its changelog would be {declared.topic} instead of {running.topic}: the rows there would be orphaned. "
            "Keep the topic: a change of rows makes topics of its own."
        )
    if declared.kind != running.kind:
        details.append(
            f"It would be read as {declared.kind}, but its keys are {running.kind} keys: make another store."
        )
    return details


def _broken_schema(declared: DeclaredStore, running: RunningStore) -> list[str]:
    known = {step.name: step for step in declared.steps}
    details = [
        f"Migration {name} was applied to the running generation and is missing from the code: restore it, or the app "
        "can't start."
        for name in running.migrations
        if name not in known
    ]
    moved = [
        f"Migration {name} made version {version}, and is declared to make version {known[name].to_version}."
        for version, name in enumerate(running.migrations, start=2)
        if name in known and known[name].to_version != version
    ]
    details += moved
    fields = declared.fields_at(running.version)
    if details or fields is None or running.fields is None:
        return details
    if BY_SCHEMA.items() <= running.fields.items() and BY_SCHEMA.items() <= fields.items():
        return []  # their subject has a change of its own
    changes = differences(running.fields, fields)
    if not changes:
        return []
    where = f"its values are of version {running.version}, and that version would change: {'; '.join(changes)}."
    return [f"The fields changed in place: {where} Leave that version as it is, and declare a migration to the next."]


def _other_partitions(declared: DeclaredStore, running: RunningStore) -> int | None:
    """The number to change to; None if it stays."""
    if declared.partitions is None or running.partitions is None or declared.partitions == running.partitions:
        return None
    return declared.partitions


def _migration(
    declared: DeclaredStore, running: RunningStore, pending: Sequence[Step], partitions: int | None
) -> Change:
    if declared.unchangeable is not None:
        what = f"no generation of {declared.app} can begin with another's content, as {declared.unchangeable}"
        return _broken(running, [f"It can't be changed: {what}."])
    details: list[str] = []
    fields = declared.fields_at(running.version) or {}
    for step in pending:
        details.append(f"{step.name}: {step.summary}")
        details += differences(fields, step.fields)
        fields = step.fields
        if step.changes_key:
            details.append("keys change: callers must ask by the new ones from the hand-over on")
    if partitions is not None:
        details.append(f"partitions of the changelog: {running.partitions} -> {partitions}")
    conf: dict[str, Any] = {"app": declared.app, "migrations": [step.name for step in pending]}
    if partitions is not None:
        conf["partitions"] = partitions
    return Change(
        declared.store,
        Verdict.MIGRATE,
        tuple(details),
        running.keys,
        running.size_bytes,
        minutes_for(running.keys),
        conf,
    )


def minutes_for(keys: int | None) -> int | None:
    """Roughly how long a migration takes on two cores, while input keeps arriving."""
    return None if keys is None else math.ceil(_FIXED_MINUTES + keys / _KEYS_PER_MINUTE)


def differences(before: Fields, after: Fields) -> list[str]:
    """What happened to the fields, each as a few words. A rename shows as one removed and one added."""
    removed = [f"field {name} removed" for name in before if name not in after]
    added = [f"field {name} added ({after[name]})" for name in after if name not in before]
    retyped = [
        f"field {name} retyped ({before[name]} -> {after[name]})"
        for name in before
        if name in after and before[name] != after[name]
    ]
    return removed + added + retyped


def _broken(running: RunningStore, details: Sequence[str]) -> Change:
    return Change(running.store, Verdict.BREAKS, tuple(details), running.keys, running.size_bytes)


def _count(keys: int | None) -> str:
    return "an unknown number of keys" if keys is None else f"{keys:,} keys"


_WORDS = {
    Verdict.UNCHANGED: "stays as it is",
    Verdict.NEW: "is new",
    Verdict.REBUILD: "stays, its index is rebuilt",
    Verdict.MIGRATE: "can be changed by a new generation",
    Verdict.READ_ONLY: "becomes read-only",
    Verdict.BREAKS: "WOULD BREAK",
}


def explain_plan(plan: Plan) -> str:
    """All changes, breaking ones first; then the stores that stay as they are, in one line."""
    if not plan.changes:
        return "Nothing to compare: no app declares a store, and none runs."
    ordered = sorted(plan.changes, key=lambda change: (change.verdict is not Verdict.BREAKS, change.store))
    unchanged = [change for change in ordered if change.verdict is Verdict.UNCHANGED and not change.details]
    lines = [explain_change(change) for change in ordered if change not in unchanged]
    if unchanged:
        stay = "stays as it is" if len(unchanged) == 1 else "stay as they are"
        lines.append(f"{', '.join(f'**{change.store}**' for change in unchanged)} {stay}\n")
    return "\n".join(lines)


def explain_change(change: Change) -> str:
    """One store's change: a line, and one for each detail, size, time and what to trigger."""
    lines = [f"**{change.store}** {_WORDS[change.verdict]}", *(f"- {detail}" for detail in change.details)]
    if change.keys is not None and change.verdict in {Verdict.MIGRATE, Verdict.BREAKS}:
        size = "" if change.size_bytes is None else f", {_size(change.size_bytes)} in its snapshot"
        lines.append(f"- {change.keys:,} keys{size}")
    if change.minutes is not None:
        lines.append(f"- about {change.minutes} minutes, while reads and writes go on")
    if change.conf:
        lines.append(f"- DAG `migrate_state` with `{orjson.dumps(change.conf).decode()}`")
    return "\n".join(lines) + "\n"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


_KEEP = (
    "Is an operator above it new, or called otherwise? Then give it its old name by `named=`. Or take it out by a "
    "migration, which makes a new generation."
)


def topology_changes(declared: AppTopology, running: AppTopology) -> list[Change]:
    """The change of each store that no node serves, of each repartition topic, and of the tasks if they can't go on."""
    return [*_stores(declared, running), *_repartitions(declared, running), *_tasks(declared, running)]


def _stores(ours: AppTopology, running: AppTopology) -> Iterator[Change]:
    for name in sorted(ours.stores.keys() | running.stores.keys()):
        theirs, declared = running.stores.get(name), ours.stores.get(name)
        if theirs is None:
            yield Change(name, Verdict.NEW, ("It begins empty, with the input from then on.",))
        elif declared is None:
            details = f"No operator of {running.app} has this store any more: its rows would belong to nobody. {_KEEP}"
            yield Change(name, Verdict.BREAKS, (details,))
        elif declared != theirs:
            details = f"It would be read as {declared}, but its rows are those of kind {theirs}. {_KEEP}"
            yield Change(name, Verdict.BREAKS, (details,))
        else:
            yield Change(name, Verdict.UNCHANGED)


def _repartitions(ours: AppTopology, running: AppTopology) -> Iterator[Change]:
    for name in sorted(ours.repartitions.keys() | running.repartitions.keys()):
        theirs, declared = running.repartitions.get(name), ours.repartitions.get(name)
        if theirs is None:
            yield Change(name, Verdict.NEW, (f"Repartition by {declared}.",))
        elif declared is None:
            details = (
                f"{running.app} no longer has this repartition: the tasks behind it would lose their stream times, "
                f"and records in flight would be lost. {_KEEP}"
            )
            yield Change(name, Verdict.BREAKS, (details,))
        elif (theirs, declared) == ("topic", "shuffle"):
            details = (
                "It would be a shuffle instead of a topic: records in flight in the topic would be lost. "
                "Ask for the topic by `repartition(topic=...)`."
            )
            yield Change(name, Verdict.BREAKS, (details,))
        else:
            yield Change(name, Verdict.UNCHANGED)


def _tasks(declared: AppTopology, running: AppTopology) -> Iterator[Change]:
    try:
        continued(declared.slots, running.slots)
    except ConfigurationError as error:
        yield Change(f"tasks of {running.app}", Verdict.BREAKS, (f"{error}.",))
