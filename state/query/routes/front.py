"""The front of all routes: chooses the variant of a store, and answers for single keys before the web framework does.

A request for a store is sent to the variant that answers for it before any route sees it. So one request uses one
variant even if a switch-over happens, and its requests to other nodes name that variant.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from state.cluster.catalog import Catalog
from state.errors import InvalidArgumentError
from state.protocol.freshness import NO_REQUIREMENT, PARAMETERS, FreshnessRequirement
from state.protocol.keys import decode_base64url
from state.query.answers.answer import Answer, problem_of
from state.query.protection.hot_requests import HotAnswers
from state.query.reads.many import ManyQueries, parse_keys
from state.query.reads.point import LOCAL, PointQueries
from state.query.routes.parameters import check_names
from state.security.hop import HOP

_STATE = b"/state/"
_PREFIX = b"/state/keyvalue/"
_MANY_PREFIX = b"/state/keyvalues/"
_HOT_PREFIX = b"/state/keyvalue"
_HOP = HOP.encode()
_PREFIX_BYTES = len(_PREFIX)
_TARGET = re.compile(rb"[\x21-\x22\x24-\x7e]+")
_KEY_FORMAT = b"key_format="
_KNOWN = PARAMETERS | {"key_format"}
_PLAIN_TARGET = re.compile(rb"[A-Za-z0-9._~!$'()*,;:@/?&=-]+")
_PLAIN_STORE = re.compile(rb"[A-Za-z0-9._@-]+")
_LONGEST_TARGET_BYTES = 16_384
"""Longer ones are left to the guard."""
_NO_REQUIREMENT = re.compile(rb"key_format=string(?:&deadline_ms=[1-9][0-9]{0,8})?")
"""The parameter that clients send with each question. An immediate answer is always in time."""

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

Scope = MutableMapping[str, Any]
ASGIApp = Any


class Front:
    """ASGI: answers for single keys, hands everything else to `app`. Requests of other nodes already name a variant.

    The key is everything behind the store's name, percent-decoded once: it may contain slashes, encoded or not. With
    `?key_format=base64url` it is base64url, for keys that aren't text. Every requirement of freshness is accepted, too.
    """

    def __init__(self, catalog: Catalog, point: PointQueries, many: ManyQueries, app: ASGIApp) -> None:
        self._catalog = catalog
        self._point = point
        self._many = many
        self._hot_rows = point.hot_rows
        self._latency = point.answered[LOCAL]
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        if scope["type"] == "http":
            elsewhere = self._catalog.elsewhere
            if elsewhere and not is_forwarded(scope):
                scope = _renamed_scope(scope, elsewhere)
            path: bytes = scope["raw_path"]
            if scope["method"] == "GET" and path.startswith(_PREFIX):
                answer = await answer_key(self._point, scope)
                await answer.send(send)
                return
        await self._app(scope, receive, send)

    @property
    def hot_answers(self) -> HotAnswers:
        """The same in front of ASGI, for requests that can be answered at once."""
        return HotAnswers(_HOT_PREFIX, self.now, self.posted)

    def now(self, target: bytes) -> bytes | None:
        """The whole response to a request for a path with its query string, if it can be given without waiting.

        None leaves it to ASGI: rows on other nodes, unknown keys, malformed requests.
        """
        began_ns = time.perf_counter_ns()
        if len(target) > _LONGEST_TARGET_BYTES:
            return None
        elsewhere = self._catalog.elsewhere
        if elsewhere:
            target = _renamed(target, elsewhere)
        if target.startswith(_MANY_PREFIX):
            return self._several(target)
        query = target.find(b"?")
        if query > 0 and _NO_REQUIREMENT.fullmatch(target, query + 1) is not None:
            target = target[:query]
        store, _, key = target[_PREFIX_BYTES:].partition(b"/")
        found = self._hot_rows.answer(store, key) if target.startswith(_PREFIX) else None
        if found is None:
            found = self._read(target)
        if found is not None:
            self._latency.record(time.perf_counter_ns() - began_ns)
        return found

    def posted(self, target: bytes, body: bytes) -> bytes | None:
        """The same for `POST /state/keyvalues/{store}` with keys in the body and nothing required."""
        elsewhere = self._catalog.elsewhere
        if elsewhere:
            target = _renamed(target, elsewhere)
        store = target[len(_MANY_PREFIX) :]
        if not target.startswith(_MANY_PREFIX) or _PLAIN_STORE.fullmatch(store) is None:
            return None
        try:
            keys = parse_keys(body)
        except InvalidArgumentError:
            return None
        return self._many.now(store, keys)

    def _several(self, target: bytes) -> bytes | None:
        """`/state/keyvalues/{store}?key=a&key=b` with nothing else in it, and keys that need no decoding."""
        store, question, query = target[len(_MANY_PREFIX) :].partition(b"?key=")
        keys = query.split(b"&key=")
        if not question or len(keys) != query.count(b"&") + 1 or _PLAIN_TARGET.fullmatch(target) is None:
            return None
        return self._many.now(store, keys)

    def _read(self, target: bytes) -> bytes | None:
        if not target.startswith(_PREFIX) or _TARGET.fullmatch(target) is None:
            return None
        path, _, query = target.partition(b"?")
        store, _, key = path[_PREFIX_BYTES:].partition(b"/")
        requirement = NO_REQUIREMENT
        try:
            if query:
                if b"%" in query:
                    return None
                required = _requirement(query)
                if required is None:
                    return None
                requirement = required
            if b"%" in target:
                store, key = unquote_to_bytes(store), unquote_to_bytes(key)
            return self._point.now(store.decode(), key, requirement) if key else None
        except (InvalidArgumentError, UnicodeDecodeError):
            return None


async def answer_key(point: PointQueries, scope: Scope) -> Answer:
    """The answer to `GET /state/keyvalue/{store}/{key}`, of this node or of another one; errors come as problems."""
    store, _, key = scope["raw_path"].split(b"/", 3)[3].partition(b"/")
    query: bytes = scope["query_string"]
    try:
        name, key = unquote_to_bytes(store).decode(), unquote_to_bytes(key)
        if query:
            check_names(query, _KNOWN)
            if _is_base64url(query):
                key = decode_base64url(key, "the key")
        requirement = FreshnessRequirement.parse(query) if query else NO_REQUIREMENT
    except (InvalidArgumentError, UnicodeDecodeError) as error:
        return Answer.problem(problem_of(InvalidArgumentError(str(error))))
    return await point.answer(name, key, requirement, forwarded=is_forwarded(scope))


def is_forwarded(scope: Mapping[str, Any]) -> bool:
    """Whether the request comes from another node; then it is never sent on."""
    return any(name == _HOP for name, _ in scope["headers"])


@lru_cache(maxsize=1024)
def _requirement(query: bytes) -> FreshnessRequirement | None:
    """The requirement for a key that is written as text; None if it is written otherwise."""
    # Requirements without a token repeat from request to request.
    check_names(query, _KNOWN)
    return None if _is_base64url(query) else FreshnessRequirement.parse(query)


def _is_base64url(query: bytes) -> bool:
    """Whether the key is base64url. Raises InvalidArgumentError if the query says neither that nor text."""
    (said,) = [part[len(_KEY_FORMAT) :] for part in query.split(b"&") if part.startswith(_KEY_FORMAT)] or [b"string"]
    if said not in {b"string", b"base64url"}:
        raise InvalidArgumentError("key_format is string or base64url")
    return said == b"base64url"


def asked_path(scope: Mapping[str, Any]) -> bytes:
    """The path of a request as it was sent."""
    path: bytes = scope.get(_ASKED_PATH, scope["raw_path"])
    return path


def _renamed_scope(scope: Scope, elsewhere: Mapping[bytes, bytes]) -> Scope:
    asked: bytes = scope["raw_path"]
    path = _renamed(asked, elsewhere)
    if path is asked:
        return scope
    # Decoded as the server does: a key need not be UTF-8.
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii")), _ASKED_PATH: asked}


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
