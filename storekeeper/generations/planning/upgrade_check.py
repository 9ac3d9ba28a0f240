"""Checks whether the installed code could replace the running code of an app. Starts and changes nothing."""

from __future__ import annotations

import time

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import Clock
from storekeeper.engine.runtime.topics import Topics, await_topics
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import spec_of
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Verdict, plan_changes
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.planning.declared import declared_stores, with_topologies
from storekeeper.generations.planning.describe import describe
from storekeeper.generations.planning.schemas import with_schemas


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
    running = describe(settings, clock)
    own = {name: store for name, store in running.stores.items() if store.app == spec.name}
    declared = [store for store in declared_stores() if store.app == spec.name]
    inside = {app: found for app, found in running.topologies.items() if app == spec.name}
    there = Description(running.described_at_ms, own, inside)
    changes = with_schemas(with_topologies(plan_changes(declared, there), there), there, [spec.name]).changes
    broken = [f"{change.store}: {' '.join(change.details)}" for change in changes if change.verdict is Verdict.BREAKS]
    if broken:
        msg = f"this code would break what {spec.name} holds; {'; '.join(broken)}"
        raise ConfigurationError(msg)
    return {change.store: change.verdict.value for change in changes}
