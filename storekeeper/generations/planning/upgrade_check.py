"""Checks whether the installed code could replace the running code of an app. Starts and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import described
from storekeeper.clock import Clock
from storekeeper.engine.runtime.topics import Topics, await_topics
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import describe_of, spec_of
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Change, Plan, Verdict, plan_changes
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.planning.declared import declared_stores, with_topologies
from storekeeper.generations.planning.describe import describe
from storekeeper.schemas.bound import BoundSerde
from storekeeper.topology.plan import Topology
from storekeeper.topology.schemas import written_schemas

_INSTEAD = (
    "Give new fields a default and leave old ones in place; or change the values by a migration: the new generation's "
    "changelog has a subject of its own."
)


def with_schemas(plan: Plan, running: Description, apps: Collection[str]) -> Plan:
    """A plan with the changes of the subjects that apps write to. Asks the registry only if an app has schemas. An app
    that doesn't run is taken as one that starts from the beginning.

    Raises:
        ConfigurationError: an app has schemas, and no registry is set.
        SchemaRegistryUnavailableError: the registry doesn't answer.
    """
    serdes = {serde.subject: serde for app in sorted(apps) for serde in _written(app, running)}
    return Plan((*plan.changes, *(_change(serdes[subject]) for subject in sorted(serdes))))


def _written(app: str, running: Description) -> Iterator[BoundSerde[Any]]:
    with suppress(ConfigurationError):  # of a migration that is gone: the plan reports that for its stores
        topology = _topology(app, running)
        if topology is not None:
            yield from list(written_schemas(topology))


def _topology(app: str, running: Description) -> Topology | None:
    spec, topology = APPS.get(app), running.topologies.get(app)
    if spec is None or spec.describe is None:
        return None
    settings = AppSettings()
    if topology is None:
        return described(app, spec.describe, settings)
    describe = spec.describe if not topology.migrations else describe_of(spec, topology.migrations)
    return described(app, describe, settings.in_generation(topology.generation))


def _change(serde: BoundSerde[Any]) -> Change:
    if serde.is_registered():
        return Change(serde.subject, Verdict.UNCHANGED)
    refusal = serde.refusal()
    if refusal is not None:
        return Change(serde.subject, Verdict.BREAKS, (f"{refusal}. {_INSTEAD}",))
    detail = (
        "The app registers its schema when it starts." if serde.registers else "Register its schema before the start."
    )
    return Change(serde.subject, Verdict.NEW, (detail,))


def check_upgrade(spec: AppSpec, settings: AppSettings, clock: Clock) -> dict[str, str]:
    """Looks for the topics of the app, and plans the changes of its stores; returns verdicts by store.

    Raises:
        BrokerUnavailableError, SchemaRegistryUnavailableError: the broker or the schema registry doesn't answer.
        ConfigurationError: topics are missing, or a store would be orphaned or broken.
    """
    journal = JournalFile(settings.durable, spec.name).read()
    lives = spec if journal is None else spec_of(spec, journal.live_generation)
    await_topics(
        Topics(settings.kafka),
        lives.topics(settings),
        clock=clock,
        wait=time.sleep,
    )
    changes = changes_of(spec, describe(settings, clock))
    if broken := what_breaks(spec, changes):
        raise ConfigurationError(broken)
    return {change.store: change.verdict.value for change in changes}


def changes_of(spec: AppSpec, running: Description) -> tuple[Change, ...]:
    """The changes that this code would make to an app's stores and topics.

    Raises:
        SchemaRegistryUnavailableError: the app has schemas, and their registry doesn't answer.
    """
    own = {name: store for name, store in running.stores.items() if store.app == spec.name}
    declared = [store for store in declared_stores() if store.app == spec.name]
    inside = {app: topology for app, topology in running.topologies.items() if app == spec.name}
    live = Description(running.described_at_ms, own, inside)
    return with_schemas(with_topologies(plan_changes(declared, live), live), live, [spec.name]).changes


def what_breaks(spec: AppSpec, changes: Iterable[Change]) -> str | None:
    """What some changes would break, in a sentence; None if nothing."""
    broken = [f"{change.store}: {' '.join(change.details)}" for change in changes if change.verdict is Verdict.BREAKS]
    return f"this code would break what {spec.name} holds; {'; '.join(broken)}" if broken else None
