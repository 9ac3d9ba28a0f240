"""The most frequent route, `GET /state/keyvalue/{store}/{key}`, answered before the web framework sees it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

from state.errors import InvalidArgumentError
from state.protocol.freshness import NO_REQUIREMENT, PARAMETERS, FreshnessRequirement
from state.protocol.keys import decode_base64url
from state.query.answers.answer import Answer
from state.query.answers.problems import problem_of
from state.query.protection.hot_requests import HotAnswers
from state.query.reads.many import parse_keys
from state.query.reads.point import LOCAL, PointQueries
from state.query.routes.known_parameters import check_names
from state.security.hop import HOP

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

Scope = dict[str, Any]
ASGIApp = Any


class HotRoute:
    """ASGI: takes its one route, hands everything else to `app`.

    The key is everything behind the store's name, percent-decoded once: it may contain slashes, encoded or not. With
    `?key_format=base64url` it is base64url, for keys that aren't text. Every requirement of freshness is accepted, too.
    """

    def __init__(self, point: PointQueries, app: ASGIApp) -> None:
        self._point = point
        self._hot_rows = point.hot_rows
        self._latency = point.answered[LOCAL]
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        if scope["type"] == "http" and scope["method"] == "GET":
            path: bytes = scope["raw_path"]
            if path.startswith(_PREFIX):
                answer = await self._answer(path, scope)
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
        if target.startswith(_MANY_PREFIX):
            return self._many(target)
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
        store = target[len(_MANY_PREFIX) :]
        if not target.startswith(_MANY_PREFIX) or _PLAIN_STORE.fullmatch(store) is None:
            return None
        try:
            keys = parse_keys(body)
        except InvalidArgumentError:
            return None
        return self._point.many_now(store, keys)

    def _many(self, target: bytes) -> bytes | None:
        """`/state/keyvalues/{store}?key=a&key=b` with nothing else in it, and keys that need no decoding."""
        store, question, query = target[len(_MANY_PREFIX) :].partition(b"?key=")
        keys = query.split(b"&key=")
        if not question or len(keys) != query.count(b"&") + 1 or _PLAIN_TARGET.fullmatch(target) is None:
            return None
        return self._point.many_now(store, keys)

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

    async def _answer(self, path: bytes, scope: Scope) -> Answer:
        store, _, raw_key = path[len(_PREFIX) :].partition(b"/")
        key = unquote_to_bytes(raw_key) if b"%" in raw_key else raw_key
        query: bytes = scope["query_string"]
        try:
            if query:
                check_names(query, _KNOWN)
                if _is_base64url(query):
                    key = decode_base64url(key, "the key")
            requirement = FreshnessRequirement.parse(query) if query else NO_REQUIREMENT
            name = unquote_to_bytes(store).decode()
        except (InvalidArgumentError, UnicodeDecodeError) as error:
            return Answer.problem(problem_of(InvalidArgumentError(str(error))))
        return await self._point.answer(name, key, requirement, forwarded=is_forwarded(scope))


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
