"""Which stores may be cleaned up. Their tasks follow the deletions, because their state is the changelog."""

from __future__ import annotations

from storekeeper.apps.registry import stores
from storekeeper.apps.spec import StoreSpec
from storekeeper.errors import ConfigurationError
from storekeeper.generations.journal import Journal


def cleanable_stores() -> tuple[str, ...]:
    """The stores that grow without bounds."""
    return tuple(name for name, store in stores().items() if not store.bounded)


def check_cleanable(store: StoreSpec) -> None:
    """Checks that rows of the store may be deleted.

    Raises:
        ConfigurationError: the store is bounded.
    """
    if store.bounded:
        raise ConfigurationError(f"{store.app} bounds store {store.name} by itself: set its retention instead")


def check_alone(store: StoreSpec, journal: Journal | None) -> None:
    """Checks that the live generation is the only one, so that rows deleted in it are gone.

    Raises:
        ConfigurationError: another generation has them too: a candidate would differ and not take over, and a roll-back
            would bring them back.
    """
    other = None if journal is None else journal.other
    if other is not None:
        raise ConfigurationError(
            f"generation {other.number} of {store.app} is {other.state} and holds the rows of store {store.name} too: "
            f"hand over to it and retire the old one, or retire it (`generation retire {store.app}`), then clean up"
        )
