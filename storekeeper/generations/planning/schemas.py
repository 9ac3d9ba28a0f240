"""How the schemas that apps write with would change the subjects of the schema registry."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import describe_of
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Change, Plan, Verdict
from storekeeper.schemas.bound import BoundSerde
from storekeeper.topology.plan import Topology
from storekeeper.topology.schemas import written_schemas

_INSTEAD = (
    "Give new fields a default and leave old ones in place; or change the values by a migration: the new generation's "
    "changelog has a subject of its own."
)


def with_schemas(plan: Plan, running: Description, apps: Collection[str]) -> Plan:
    """A plan with the changes of the subjects that apps write to. Asks the registry only if an app has schemas.

    Args:
        plan: the plan.
        running: what runs; an app that doesn't is taken as one that starts from the beginning.
        apps: the apps to look at.

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
    spec, there = APPS.get(app), running.topologies.get(app)
    if spec is None or spec.describe is None:
        return None
    settings = AppSettings()
    if there is None:
        return described(app, spec.describe, settings)
    describe = spec.describe if not there.migrations else describe_of(spec, there.migrations)
    return described(app, describe, settings.model_copy(update={"generation": there.generation}))


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
