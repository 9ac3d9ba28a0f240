"""Which queries a kind of store answers, and the refusal of the others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from storekeeper.node.query.answers.answer import WrongKindError
from storekeeper.stores.store_definitions import ServedKind, StoreDefinition

_KEYED = (
    "/state/keyvalue/{store}/{key}",
    "/state/keyvalues/{store}",
    "/state/keyvalues/{store}/all",
    "/state/keyvalues/{store}/range/{from}/{to}",
    "/state/keyvalues/{store}/prefix/{prefix}",
)
_ANY = ("/state/metadata/{store}/{key}", "/state/history/{store}/{key}")

ROUTES: Mapping[ServedKind, tuple[str, ...]] = MappingProxyType(
    {
        ServedKind.KEY_VALUE: (*_KEYED, *_ANY),
        ServedKind.GLOBAL: (*_KEYED, *_ANY),
        ServedKind.RANKED: (
            *_KEYED,
            "/state/ranked/{store}/top",
            "/state/ranked/{store}/rank/{key}",
            "/state/ranked/{store}/scores/{from}/{to}",
            *_ANY,
        ),
        ServedKind.WINDOW: (
            "/state/windowed/{store}/{key}/{from}/{to}",
            "/state/windowed/{store}/all/{from}/{to}",
            *_ANY,
        ),
        ServedKind.SESSION: (
            "/state/sessions/{store}/{key}",
            "/state/sessions/{store}/active",
            "/state/sessions/{store}/ended/{from}/{to}",
            *_ANY,
        ),
        ServedKind.VERSIONED: (
            "/state/keyvalue/{store}/{key}",
            "/state/versions/{store}/{key}",
            *_ANY,
        ),
    }
)
"""The routes that answer for each kind of store."""

KEYED_KINDS = (ServedKind.KEY_VALUE, ServedKind.RANKED, ServedKind.GLOBAL)
"""Kinds whose changelog key is the key itself."""


def require_kind(definition: StoreDefinition, *kinds: ServedKind) -> None:
    """Lets only stores of some kinds pass.

    Raises:
        WrongKindError: if the store is of another kind.
    """
    if definition.kind not in kinds:
        routes = ", ".join(route.replace("{store}", definition.name) for route in ROUTES[definition.kind])
        msg = f"{definition.name} is a {definition.kind.value} store, which this route can't read: ask {routes}"
        raise WrongKindError(msg)
