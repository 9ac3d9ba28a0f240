"""Compares an app's internal stores and topics, as running and as declared. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storekeeper.errors import ConfigurationError
from storekeeper.generations.changes.contract import AppTopology
from storekeeper.generations.changes.plan import Change, Verdict
from storekeeper.topology.slots import continued

_KEEP = (
    "Is an operator above it new, or called otherwise? Then give it its old name by `named=`. Or take it out by a "
    "migration, which makes a new generation."
)


def topology_changes(wanted: AppTopology, found: AppTopology) -> list[Change]:
    """The change of each store that no node serves, of each repartition topic, and of the tasks if they can't go on."""
    return [*_stores(wanted, found), *_repartitions(wanted, found), *_tasks(wanted, found)]


def _stores(wanted: AppTopology, found: AppTopology) -> Iterator[Change]:
    for name in sorted(wanted.stores.keys() | found.stores.keys()):
        there, declared = found.stores.get(name), wanted.stores.get(name)
        if there is None:
            yield Change(name, Verdict.NEW, ("It begins empty, with the input from then on.",))
        elif declared is None:
            details = f"No operator of {found.app} has this store any more: its rows would belong to nobody. {_KEEP}"
            yield Change(name, Verdict.BREAKS, (details,))
        elif declared != there:
            details = f"It would be read as {declared}, but its rows are those of kind {there}. {_KEEP}"
            yield Change(name, Verdict.BREAKS, (details,))
        else:
            yield Change(name, Verdict.UNCHANGED)


def _repartitions(wanted: AppTopology, found: AppTopology) -> Iterator[Change]:
    for name in sorted(wanted.repartitions.keys() | found.repartitions.keys()):
        there, declared = found.repartitions.get(name), wanted.repartitions.get(name)
        if there is None:
            yield Change(name, Verdict.NEW, (f"Repartition by {declared}.",))
        elif declared is None:
            details = (
                f"{found.app} no longer has this repartition: the tasks behind it would lose their stream times, "
                f"and records in flight would be lost. {_KEEP}"
            )
            yield Change(name, Verdict.BREAKS, (details,))
        elif (there, declared) == ("topic", "shuffle"):
            details = (
                "It would be a shuffle instead of a topic: records in flight in the topic would be lost. "
                "Ask for the topic by `repartition(topic=...)`."
            )
            yield Change(name, Verdict.BREAKS, (details,))
        else:
            yield Change(name, Verdict.UNCHANGED)


def _tasks(wanted: AppTopology, found: AppTopology) -> Iterator[Change]:
    try:
        continued(wanted.slots, found.slots)
    except ConfigurationError as error:
        yield Change(f"tasks of {found.app}", Verdict.BREAKS, (f"{error}.",))
