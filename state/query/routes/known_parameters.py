"""The query parameters that a route knows. Any other is refused by name, as a misspelled one would be ignored."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import Any, get_origin

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from state.errors import InvalidArgumentError
from state.security.access import INTERNAL_PREFIX

_EVERYWHERE = frozenset({"deadline_ms"})
_NONE: frozenset[str] = frozenset()
_SHOWN = 40


def check_names(query: bytes, known: AbstractSet[str], lists: AbstractSet[str] = _NONE) -> None:
    """Checks the names in a query string. A name is written plainly: percent-encoded it is another one.

    Args:
        query: the query string.
        known: the names that may be there once.
        lists: those of them that may be there several times.

    Raises:
        InvalidArgumentError: if a name is not known, or is there twice.
    """
    seen: set[str] = set()
    for part in filter(None, query.split(b"&")):
        name = part.partition(b"=")[0].decode("ascii", errors="replace")
        if name not in known:
            near = get_close_matches(name, known, 1) or sorted(known)
            msg = f"there is no parameter {name[:_SHOWN]!r} here: did you mean {' or '.join(near)}?"
            raise InvalidArgumentError(msg)
        if name in seen and name not in lists:
            msg = f"{name} is given twice: give it once"
            raise InvalidArgumentError(msg)
        seen.add(name)


def refuse_unknown_parameters(app: FastAPI) -> None:
    """Makes every current route of `app` check its parameters. Routes between nodes are signed and left alone."""
    for route in app.routes:
        if isinstance(route, Route) and not route.path.startswith(INTERNAL_PREFIX.decode()):
            route.app = _KnownParameters(route)


class _KnownParameters:
    """ASGI, in front of one route's endpoint."""

    def __init__(self, route: Route) -> None:
        self._app = route.app
        self._lists: frozenset[str] = _NONE
        known = set(_EVERYWHERE)
        if isinstance(route, APIRoute):
            fields = route.dependant.query_params
            documented = (route.openapi_extra or {}).get("parameters", ())
            known |= {field.alias for field in fields} | {parameter["name"] for parameter in documented}
            self._lists = frozenset(field.alias for field in fields if get_origin(field.field_info.annotation) is list)
        self._known = frozenset(known)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["query_string"]:
            check_names(scope["query_string"], self._known, self._lists)
        await self._app(scope, receive, send)
