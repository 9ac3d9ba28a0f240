"""Which stores a clean-up may delete rows of, and what their apps remember of rows that are gone."""

from __future__ import annotations

from spark_apps.generations.catalog import migrations_of
from spark_apps.generations.journal import Journal
from spark_apps.registry import APPS, STORES
from spark_apps.spec import StoreSpec
from state.errors import ConfigurationError


def cleanable_stores() -> tuple[str, ...]:
    """The stores that grow without bounds, and those that they can be split into."""
    unbounded = [name for name, store in STORES.items() if not store.is_bounded]
    return tuple(dict.fromkeys(part for name in unbounded for part in (name, *_parts(name))))


def purgeable_stores() -> dict[str, str]:
    """The stores whose apps can forget deleted rows by a new generation, and those apps."""
    return {
        part: app.name
        for app in APPS.values()
        for store in app.stores
        if app.has_generations and (app.seeding is not None or store.state_key is not None)
        for part in (store.name, *_parts(store.name))
    }


def _parts(store: str) -> tuple[str, ...]:
    return tuple(part for migration in migrations_of(store) for part in migration.stores)


def continues_totals(store: StoreSpec) -> bool:
    """Whether its app's own state goes on from a row that was deleted, with the total that it had."""
    return not store.written_anew


def check_cleanable(store: StoreSpec, *, keep_compute_state: bool, purge_compute_state: bool = False) -> None:
    """Returns if rows of the store may be deleted.

    Raises:
        ConfigurationError: it bounds itself, or its app would go on from deleted rows and nobody said that it may, or
            that a new generation is to forget them; or its app can't have one.
    """
    if purge_compute_state and store.name not in purgeable_stores():
        msg = (
            f"{store.app} can't forget deleted rows of store {store.name} by a new generation: "
            "the store's spec has no `state_key` that tells which state goes on from a row"
        )
        raise ConfigurationError(msg)
    if store.is_bounded:
        msg = f"{store.app} bounds store {store.name} by itself: set its retention instead"
        raise ConfigurationError(msg)
    if continues_totals(store) and not (keep_compute_state or purge_compute_state):
        msg = (
            f"{store.app} keeps the totals of store {store.name} in its own state too: a deleted key that gets a "
            "record again goes on from its old total, until a new generation is seeded from a snapshot without it. "
            "Say that you want that with keep_compute_state (--keep-compute-state), or that you will have such a "
            "generation made with purge_compute_state (--purge-compute-state)"
        )
        raise ConfigurationError(msg)


def check_alone(store: StoreSpec, journal: Journal | None) -> None:
    """Returns if the live generation is the only one, so that rows that are deleted in it are gone.

    Raises:
        ConfigurationError: another generation holds them too: what is on its way would not be handed over to, and a
            roll-back would bring them back.
    """
    other = None if journal is None else journal.other
    if other is not None:
        msg = (
            f"generation {other.number} of {store.app} is {other.state} and holds the rows of store {store.name} too: "
            f"hand over to it and retire the old one, or retire it (`generation retire {store.app}`), then clean up"
        )
        raise ConfigurationError(msg)
