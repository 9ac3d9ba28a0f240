"""Sends a request for a store to the variant that answers for it, before any route sees the request.

So one request uses one variant even if a switch-over happens; its requests to other nodes name that variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from state.cluster.catalog import Catalog
from state.query.protection.hot_requests import HotAnswers
from state.query.routes.hot_route import HotRoute, is_forwarded

_STATE = b"/state/"
_GROUPS = frozenset(
    {
        b"keyvalue",
        b"keyvalues",
        b"windowed",
        b"sessions",
        b"ranked",
        b"metadata",
        b"instance",
        b"instances",
        b"stores",
        b"digest",
    }
)
_ASKED_PATH = "storekeeper.asked_path"

Scope = dict[str, Any]


class VariantRoute:
    """ASGI, in front of all routes. A request forwarded by another node already names its variant and is left alone.

    Args:
        catalog: has the variant of each store.
        app: the hot route, and everything behind it.
    """

    def __init__(self, catalog: Catalog, app: HotRoute) -> None:
        self._catalog = catalog
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        elsewhere = self._catalog.elsewhere
        if elsewhere and scope["type"] == "http" and not is_forwarded(scope):
            asked: bytes = scope["raw_path"]
            path = _renamed(asked, elsewhere)
            if path is not asked:
                # Decoded as the server does: a key need not be UTF-8.
                scope = {**scope, "raw_path": path, "path": unquote(path.decode("ascii")), _ASKED_PATH: asked}
        await self._app(scope, receive, send)

    @property
    def hot_answers(self) -> HotAnswers:
        """The same for requests that can be answered at once."""
        found = self._app.hot_answers
        answer, post = found.answer, found.post
        catalog = self._catalog

        def now(target: bytes) -> bytes | None:
            elsewhere = catalog.elsewhere
            return answer(_renamed(target, elsewhere) if elsewhere else target)

        def posted(target: bytes, body: bytes) -> bytes | None:
            elsewhere = catalog.elsewhere
            return post(_renamed(target, elsewhere) if elsewhere else target, body)

        return replace(found, answer=now, post=posted)


def asked_path(scope: Mapping[str, Any]) -> bytes:
    """The path of a request as it was sent."""
    path: bytes = scope.get(_ASKED_PATH, scope["raw_path"])
    return path


def _renamed(target: bytes, elsewhere: Mapping[bytes, bytes]) -> bytes:
    """`/state/GROUP/STORE…` with the variant in the store's place; the very same object if nothing changes."""
    if not target.startswith(_STATE):
        return target
    group, _, rest = target[len(_STATE) :].partition(b"/")
    end = min(len(rest) if at < 0 else at for at in (rest.find(b"/"), rest.find(b"?")))
    store = rest[:end]
    variant = elsewhere.get(unquote_to_bytes(store) if b"%" in store else store)
    if variant is None or group not in _GROUPS:
        return target
    return b"%b%b/%b%b" % (_STATE, group, variant, rest[end:])
