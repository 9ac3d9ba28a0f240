"""The steps from what runs to what the configuration says, as data. Pure: `plan` shows them, `apply` does them.

A plan needs no memory of its own: each process tells what it was started with. So after a crash between two steps the
next plan has those that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from storekeeper.configuration import IMPOSSIBLE, LIVE, NEXT_START
from storekeeper.ops.programs import Kind
from storekeeper.ops.settings_reference import Value, shown

_RESTARTED = {
    "all processes": frozenset(Kind),
    "the apps": frozenset({Kind.APP}),
    "the nodes": frozenset({Kind.NODE}),
    "the broker": frozenset({Kind.BROKER}),
    "the control API": frozenset({Kind.CONTROL}),
    "Airflow": frozenset({Kind.AIRFLOW}),
}


class Action(StrEnum):
    """What a step does, in words."""

    IMPOSSIBLE = "can't be done"
    TAKE_OVER = "is taken over"
    REMOVE = "stops, and is removed"
    FORGET = "is removed"
    """It doesn't run: only the supervisor has to know."""
    READ_ONLY = "becomes read-only"
    START = "starts"
    RESTART = "restarts"
    BLOCKED = "is left as it is"
    GENERATION = "needs a new generation"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what is done with a process, a store or a setting, and why."""

    action: Action
    subject: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        reasons = f": {'; '.join(self.why)}" if self.why else ""
        return f"{self.subject} {self.action}{reasons}"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that the platform has, or is to have. `command` and `settings` are those that it was started with, or
    is to be; None if nobody knows.
    """

    kind: Kind
    runs: bool
    command: tuple[str, ...] | None
    settings: Mapping[str, Value] | None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform as it is, or is to be. `processes` are in the order of starting; `stores` are those of each app's
    process that nodes serve.
    """

    processes: Mapping[str, Process]
    settings: Mapping[str, Value]
    stores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Code:
    """What the installed code of the apps means for their processes. Those that it would break are `blocked`, each with
    the reason; `generations` are stores that it can change by one, each with how.
    """

    changed: frozenset[str] = frozenset()
    blocked: Mapping[str, str] = field(default_factory=dict)
    generations: Mapping[str, str] = field(default_factory=dict)


def steps(actual: Platform, desired: Platform, changes: Mapping[str, str], code: Code = Code()) -> tuple[Step, ...]:
    """The steps, in their order. None if everything runs as it should. `changes` says what a change of each setting
    needs.
    """
    apps = [*_of_apps(actual, desired, changes, code)]
    return (
        *_of_settings(actual, desired, changes),
        *(step for step in apps if step.action in {Action.REMOVE, Action.FORGET, Action.READ_ONLY}),
        *_of(Kind.BROKER, actual, desired, changes),
        *_of_nodes(actual, desired, changes),
        *(step for step in apps if step.action is Action.START),
        *(step for step in apps if step.action is Action.RESTART),
        *_of(Kind.AIRFLOW, actual, desired, changes),
        *_of(Kind.CONTROL, actual, desired, changes),
        *(step for step in apps if step.action is Action.BLOCKED),
        *(Step(Action.GENERATION, store, (how,)) for store, how in code.generations.items()),
    )


def restarted_by(change: str) -> frozenset[Kind]:
    """The kinds of processes that a setting's `change` restarts."""
    if not change.startswith("restart of "):
        return frozenset()
    return frozenset(kind for words, kinds in _RESTARTED.items() if words in change for kind in kinds)


def _of_settings(actual: Platform, desired: Platform, changes: Mapping[str, str]) -> Iterator[Step]:
    for name, old, new in _differing(actual.settings, desired.settings):
        change, words = changes.get(name, LIVE), f"{shown(old)} -> {shown(new)}"
        if change.startswith((IMPOSSIBLE, NEXT_START)):
            yield Step(Action.IMPOSSIBLE, name, (words, change))
        elif change.startswith(LIVE):
            yield Step(Action.TAKE_OVER, name, (words,))
    brokers = [any(one.kind is Kind.BROKER for one in platform.processes.values()) for platform in (actual, desired)]
    if brokers[0] is not brokers[1]:
        old, new = actual.settings.get("kafka_bootstrap"), desired.settings.get("kafka_bootstrap")
        why = "another Kafka has other data: `storekeeper down` first"
        yield Step(Action.IMPOSSIBLE, "kafka_bootstrap", (f"{shown(old)} -> {shown(new)}", why))


def _differing(
    old: Mapping[str, Value], new: Mapping[str, Value], names: Collection[str] | None = None
) -> Iterator[tuple[str, Value, Value]]:
    for name in sorted(new):
        if (names is None or name in names) and old.get(name) != new[name]:
            yield name, old.get(name), new[name]


def _of_apps(actual: Platform, desired: Platform, changes: Mapping[str, str], code: Code) -> Iterator[Step]:
    for step in _of(Kind.APP, actual, desired, changes, code.changed):
        gone = step.action in {Action.REMOVE, Action.FORGET}
        if not gone and step.subject in code.blocked:
            yield Step(Action.BLOCKED, step.subject, (code.blocked[step.subject],))
            continue
        yield step
        if gone:
            kept = {store for stores in desired.stores.values() for store in stores}
            for store in actual.stores.get(step.subject, ()):
                if store not in kept:
                    why = "its rows stay, nodes answer, and nothing writes: `storekeeper app retire` ends that"
                    yield Step(Action.READ_ONLY, store, (why,))


def _of(
    kind: Kind,
    actual: Platform,
    desired: Platform,
    changes: Mapping[str, str],
    changed_code: Collection[str] = frozenset(),
) -> Iterator[Step]:
    """The steps of the processes of a kind, removals first: a name, a lease or a port may go to another one."""
    for name, there in actual.processes.items():
        if there.kind is kind and name not in desired.processes:
            yield Step(Action.REMOVE if there.runs else Action.FORGET, name, ("it is not configured any more",))
    for name, wanted in desired.processes.items():
        if wanted.kind is not kind:
            continue
        process = actual.processes.get(name)
        if process is None or not process.runs:
            if wanted.runs:
                yield Step(Action.START, name, ("it is new",) if process is None else ())
        elif reasons := tuple(_reasons(process, wanted, changes, changed_code=name in changed_code)):
            yield Step(Action.RESTART, name, reasons)


def _reasons(there: Process, wanted: Process, changes: Mapping[str, str], *, changed_code: bool) -> Iterator[str]:
    """Why a process that runs has to be started again."""
    if there.settings is None or there.command is None or wanted.settings is None:
        yield "it is not known what it was started with"
        return
    names = {name for name, change in changes.items() if wanted.kind in restarted_by(change)}
    for name, old, new in _differing(there.settings, wanted.settings, names):
        yield f"{name}: {_difference(old, new)}"
    if there.address != wanted.address:
        yield f"its address: {there.address} -> {wanted.address}"
    if there.command != wanted.command:
        yield "it is started by another command"
    if changed_code:
        yield "its code has changed"


def _difference(old: Value, new: Value) -> str:
    """A change in words; of a list what comes and goes, as it may be long."""
    before, after = shown(old).split(","), shown(new).split(",")
    if max(len(before), len(after)) < 2:
        return f"{shown(old)} -> {shown(new)}"
    come, gone = (
        ", ".join(word for word in one if word not in other) for one, other in ((after, before), (before, after))
    )
    return "; ".join(f"{sign}{words}" for sign, words in (("+ ", come), ("- ", gone)) if words) or "another order"


def _of_nodes(actual: Platform, desired: Platform, changes: Mapping[str, str]) -> Iterator[Step]:
    """The steps of nodes, such that each address is free when a node takes it."""
    waiting = sorted(_of(Kind.NODE, actual, desired, changes), key=lambda step: _NODES_FIRST.index(step.action))
    taken = {name: one.address for name, one in actual.processes.items() if one.kind is Kind.NODE and one.runs}
    while waiting:
        free = next((step for step in waiting if not _is_taken(step, taken, desired)), None)
        if free is None:
            why = ("nodes would swap their addresses: name them in the order that they have, or set `peers`",)
            yield from (Step(Action.IMPOSSIBLE, step.subject, why) for step in waiting)
            return
        waiting.remove(free)
        taken.pop(free.subject, None)
        if free.action not in {Action.REMOVE, Action.FORGET}:
            taken[free.subject] = desired.processes[free.subject].address
        yield free


_NODES_FIRST = (Action.START, Action.REMOVE, Action.FORGET, Action.RESTART)
"""New nodes first, so that they can answer for those that stop."""


def _is_taken(step: Step, taken: Mapping[str, str | None], desired: Platform) -> bool:
    if step.action in {Action.REMOVE, Action.FORGET}:
        return False
    address = desired.processes[step.subject].address
    return address is not None and any(one == address for name, one in taken.items() if name != step.subject)
