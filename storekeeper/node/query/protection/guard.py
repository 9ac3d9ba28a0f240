"""The guard in front of a node's routes: requests that are too large, too slow, too many or not allowed stop here.

A request's body is read whole, within a limit and a time, before anything is done with the request. Answers get headers
against misuse by browsers, and a time limit for clients that don't read.

A plain request for a row at hand is let through as the bytes that arrived. Clients send the same header lines with each
request, so a block of lines is checked once and the verdict is kept. A request that needs more, or must be refused,
takes the way through ASGI.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from storekeeper.errors import InvalidArgumentError, StateError
from storekeeper.masked_keys import masked_path
from storekeeper.node.query.answers.answer import (
    SERVED_BY,
    Answer,
    BodyTooLargeError,
    BodyTooSlowError,
    DeadlineExceededError,
    HeadersTooLargeError,
    TooManyRequestsError,
    UrlTooLongError,
    problem_of,
)
from storekeeper.node.query.protection.request_counts import Traffic
from storekeeper.node.query.reads.hot import HOT_PREFIX, HotReads
from storekeeper.node.security.access import (
    DOCS_PATH,
    INTERNAL_PREFIX,
    LIVE_PATH,
    PAGE_PATH,
    Authenticator,
    Caller,
    ForbiddenError,
    HostRule,
    UnauthenticatedError,
    check_access,
)
from storekeeper.node.security.hop import (
    ANONYMOUS,
    CALLER,
    DEADLINE,
    HOP,
    SIGNATURE,
    Hop,
    HopRefusedError,
    HopVerifier,
    asked_for,
)
from storekeeper.trace_context import TRACEPARENT, current_trace, trace_of

log = structlog.get_logger(__name__)

_HOP, _DEADLINE, _TRACEPARENT = HOP.encode(), DEADLINE.encode(), TRACEPARENT.encode()
_HOST, _LENGTH, _CHUNKED, _AUTHORIZATION = b"host", b"content-length", b"transfer-encoding", b"authorization"
_SITE, _MODE, _ORIGIN = b"sec-fetch-site", b"sec-fetch-mode", b"origin"
_WATCHED = frozenset(
    {_HOP, _DEADLINE, CALLER.encode(), SIGNATURE.encode(), _LENGTH, _CHUNKED, _AUTHORIZATION, _SITE, _MODE, _ORIGIN}
    | {_TRACEPARENT}
)
_BODILESS = frozenset({"GET", "HEAD"})
_INTERNAL, _DEADLINE_QUERY = INTERNAL_PREFIX.decode(), b"deadline_ms="
_OPEN = frozenset({LIVE_PATH, b"/", DOCS_PATH.encode()})
_HIDDEN = (b"%2f", b"%5c", b"%00")

_HOT_GET, _HOT_POST = b"GET " + HOT_PREFIX, b"POST " + HOT_PREFIX
_END = b"\r\n\r\n"
_VERSION = b" HTTP/1.1"
_VERSION_BYTES = len(_VERSION)
_BLOCKS = 512
_BLOCK_BYTES = 2048
_VALUE = re.compile(rb"[\x20-\x7e\x80-\xff\t]*")
_LENGTH_FORM = re.compile(rb"[0-9]{1,5}")
_AT_MOST_ONCE = frozenset({_HOST, _AUTHORIZATION, _LENGTH})
# A request with any other header goes through ASGI: the header may change the answer.
_HARMLESS = _AT_MOST_ONCE | {
    *(b"user-agent", b"accept", b"accept-encoding", b"accept-language"),
    *(b"cache-control", b"pragma", b"content-type", b"connection"),
}

HARDENING: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer: rows must not be cached, and JSON is never a page."""
_PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

Scope = dict[str, Any]
Receive = Any
Send = Any
Watched = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Limits of one request, and of requests at once."""

    max_url_bytes: int = 32_768
    max_headers: int = 64
    max_header_bytes: int = 16_384
    max_body_bytes: int = 1 << 20
    max_requests: int = 1024
    body_timeout_s: float = 5.0
    max_deadline_s: float = 30.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Requests with this block of headers may be answered at once. `caller` is None if anybody may ask."""

    body_bytes: int | None
    caller: Caller | None
    reads_all: bool = True


_UNKNOWN = _Verdict(None, None)


class Guard:
    """ASGI: checks a request, then hands it to `app`. Belongs to one event loop.

    `now` does the same without ASGI for requests that `hot` can answer at once. `hosts` accepts Host headers; None
    accepts any.
    """

    def __init__(
        self,
        app: Any,
        node: str,
        *,
        limits: GuardLimits,
        authenticator: Authenticator,
        hops: HopVerifier,
        hosts: HostRule | None,
        traffic: Traffic | None = None,
        hot: HotReads | None = None,
    ) -> None:
        self._app = app
        self._origin = (SERVED_BY, node.encode())
        self._limits = limits
        self._authenticator = authenticator
        self._hops = hops
        self._hosts = hosts
        self._traffic = traffic or Traffic()
        self._running = 0
        self._hot = hot
        self._verdicts: dict[bytes, _Verdict | None] = {}
        self._revision = 0

    def now(self, data: bytes) -> bytes | None:
        """The whole response, if `data` is one whole request that can be answered now; None leaves it to ASGI."""
        hot = self._hot
        if hot is None:
            return None
        if data.startswith(_HOT_GET):
            line_end = data.find(b"\r\n")
            version = line_end - _VERSION_BYTES
            # A known block ends with the only empty line, so the segment is one whole request.
            verdict = self._verdict(data[version:])
            if verdict is None or verdict.body_bytes is not None:
                return None
            target = data[4:version]
            return hot.now(target) if _may(verdict, target) else None
        return self._posted(data, hot) if data.startswith(_HOT_POST) else None

    def _posted(self, data: bytes, hot: HotReads) -> bytes | None:
        head_end = data.find(_END) + len(_END)
        version = data.find(b"\r\n") - _VERSION_BYTES
        verdict = self._verdict(data[version:head_end])
        body_bytes = len(data) - head_end
        if verdict is None or verdict.body_bytes != body_bytes or body_bytes > self._limits.max_body_bytes:
            return None
        target = data[5:version]
        return hot.posted(target, data[head_end:]) if _may(verdict, target) else None

    def _verdict(self, block: bytes) -> _Verdict | None:
        """`block`: from the HTTP version to the empty line, inclusive. With anything after that there is no verdict."""
        revision = self._authenticator.revision
        if revision != self._revision:
            self._revision = revision
            self._verdicts.clear()
        known = self._verdicts.get(block, _UNKNOWN)
        if known is _UNKNOWN:
            known = self._decided(block)
            if len(block) <= _BLOCK_BYTES:
                if len(self._verdicts) >= _BLOCKS:
                    self._verdicts.clear()
                self._verdicts[block] = known
        return known

    def _decided(self, block: bytes) -> _Verdict | None:
        headers = _harmless_headers(block)
        if headers is None or not (self._hosts is None or self._hosts.accepts(headers[b"host"])):
            return None
        length = headers.get(b"content-length")
        body_bytes = None if length is None else int(length)
        if self._authenticator.open:
            return _Verdict(body_bytes, None)
        try:
            caller = self._authenticator.caller(headers.get(b"authorization"))
        except StateError:
            return None
        return _Verdict(body_bytes, caller, caller.reads_all)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._running >= self._limits.max_requests:
            await self._refuse(TooManyRequestsError("the node answers as many requests as it may: ask again"), send)
            return
        self._running += 1
        try:
            await self._admit(scope, receive, send, self._inspect(scope))
        except StateError as error:
            await self._refuse(error, send)
        finally:
            self._running -= 1

    def _inspect(self, scope: Scope) -> Watched:
        """Checks sizes and the host; returns the headers that matter here."""
        limits = self._limits
        if len(scope["raw_path"]) + len(scope["query_string"]) > limits.max_url_bytes:
            raise UrlTooLongError(f"the path and query string are over the limit of {limits.max_url_bytes} bytes")
        headers = scope["headers"]
        watched: dict[bytes, bytes] = {}
        size = hosts = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == _HOST:
                hosts += 1
                if self._hosts is not None and not self._hosts.accepts(value):
                    raise ForbiddenError("the Host header names another host: `allowed_hosts` can name it")
            elif name in _WATCHED:
                if name in watched:
                    raise InvalidArgumentError(f"the header {name.decode('latin-1')} is given twice: send it once")
                watched[name] = value
        if size > limits.max_header_bytes or len(headers) > limits.max_headers:
            msg = f"the headers are over the limit of {limits.max_headers} and {limits.max_header_bytes} bytes"
            raise HeadersTooLargeError(msg)
        if hosts != 1:
            raise InvalidArgumentError("a request has one Host header: send the name and port of the node in it")
        return watched

    async def _admit(self, scope: Scope, receive: Any, send: Any, watched: Watched) -> None:
        _check_site(watched)
        _check_plain(scope["raw_path"])
        hop: Hop | None = None
        if _HOP in watched:
            target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
            hop = self._hops.verify(scope["method"], target, watched)
        elif scope["path"].startswith(_INTERNAL):
            raise HopRefusedError("this path is for the other nodes of the cluster")
        caller = self._caller(scope, watched, hop)
        body = b""
        if scope["method"] not in _BODILESS or _LENGTH in watched or _CHUNKED in watched:
            if caller is None and hop is None and not self._authenticator.open:
                raise UnauthenticatedError("a token is needed to send a body, also where anybody may look")
            body = await self._body(receive, watched)
            receive = replayed(body, receive)
        if hop is not None:
            hop.check_body(body)
        left_s = self._left_s(scope, watched, hop)
        asked_for.set(ANONYMOUS if caller is None else caller.name)
        trace = trace_of(watched.get(_TRACEPARENT))
        current_trace.set(None if trace is None else trace.decode())
        await self._run(scope, receive, send, left_s or self._limits.max_deadline_s)

    async def _body(self, receive: Any, watched: Watched) -> bytes:
        limits = self._limits
        announced = watched.get(_LENGTH)
        if announced is None and _CHUNKED not in watched:
            return b""
        return await read_body(receive, announced, max_bytes=limits.max_body_bytes, timeout_s=limits.body_timeout_s)

    def _caller(self, scope: Scope, watched: Watched, hop: Hop | None) -> Caller | None:
        """The caller, after checking their rights; None where no caller is required."""
        if self._authenticator.open or _is_open(scope["raw_path"]):
            return None
        caller = self._authenticator.caller(watched.get(_AUTHORIZATION), hop)
        if hop is None or not scope["path"].startswith(_INTERNAL):
            check_access(caller, scope["raw_path"])
        return caller

    def _left_s(self, scope: Scope, watched: Watched, hop: Hop | None) -> float | None:
        """How long the answer may take, by `deadline_ms` and by another node's time left. None if neither is given."""
        asked = [value[len(_DEADLINE_QUERY) :] for value in scope["query_string"].split(b"&") if _is_deadline(value)]
        if hop is not None and _DEADLINE in watched:
            asked.append(watched[_DEADLINE])
        if not asked:
            return None
        if not all(value.isdigit() and len(value) <= 18 and int(value) for value in asked):
            raise InvalidArgumentError("deadline_ms is a whole number of milliseconds, 1 or more")
        return min(self._limits.max_deadline_s, *(int(value) / 1000 for value in asked))

    async def _run(self, scope: Scope, receive: Any, send: Any, left_s: float) -> None:
        guarded: GuardedSend | None = None
        try:
            async with asyncio.timeout(left_s) as until_start:
                guarded = GuardedSend(send, until_start, self._limits.max_deadline_s, self._traffic)
                await self._app(scope, receive, guarded)
        except TimeoutError as error:
            if guarded is not None and guarded.started:
                log.info("client_takes_no_answer", path=masked_path(scope["path"]))
                raise
            raise DeadlineExceededError("the answer was not ready before the deadline") from error

    async def _refuse(self, error: StateError, send: Any) -> None:
        answer = Answer.problem(problem_of(error), self._origin, *_AFTER.get(type(error), ()))
        self._traffic.answered(answer.status, answer.body)
        await Answer(answer.status, hardened(answer.headers), answer.body).send(send)


_CLOSE = ((b"connection", b"close"),)  # the rest of the body is not read
_AFTER: Mapping[type[StateError], tuple[tuple[bytes, bytes], ...]] = {
    BodyTooLargeError: _CLOSE,
    BodyTooSlowError: _CLOSE,
    HopRefusedError: _CLOSE,
    UnauthenticatedError: ((b"www-authenticate", b"Bearer"), *_CLOSE),
}


def _is_deadline(parameter: bytes) -> bool:
    return parameter.startswith(_DEADLINE_QUERY)


def _check_site(watched: Watched) -> None:
    """Pages of other sites may link to a node but not call it. Programs send none of these headers."""
    if watched.get(_SITE) in {b"cross-site", b"same-site"} and watched.get(_MODE) != b"navigate":
        raise ForbiddenError("pages of other sites may not call this node")


def _is_open(raw_path: bytes) -> bool:
    """Whether anybody may ask for a path: the node's life, and the files of its pages.

    These files hold no data; the page at `/` asks for a token.
    """
    return raw_path in _OPEN or raw_path.startswith(PAGE_PATH.encode())


def _check_plain(raw_path: bytes) -> None:
    """Refuses a path whose first parts change their meaning when they are decoded.

    Raises:
        InvalidArgumentError: if a store's name, or what is before it, holds an encoded slash, backslash or NUL.
    """
    head = b"/".join(raw_path.split(b"/", 4)[:4]).lower()
    if b"%" in head and any(hidden in head for hidden in _HIDDEN):
        raise InvalidArgumentError("the name of a store holds neither slashes nor backslashes, encoded or not")


class GuardedSend:
    """An ASGI `send`. Before the answer begins, `until_start` bounds the wait; afterwards each part has `stall_s`.

    `traffic` counts answers that refuse.
    """

    def __init__(self, send: Send, until_start: asyncio.Timeout, stall_s: float, traffic: Traffic) -> None:
        self._send = send
        self._until_start = until_start
        self._stall_s = stall_s
        self._traffic = traffic
        self._refused = 0
        self.started = False

    async def __call__(self, message: dict[str, Any]) -> None:
        """Sends one message.

        Raises:
            TimeoutError: if the client doesn't read it in time.
        """
        if message["type"] == "http.response.start":
            self.started = True
            self._until_start.reschedule(None)
            self._refused = message["status"] if message["status"] >= 400 else 0
            message = {**message, "headers": hardened(message.get("headers", ()))}
        elif self._refused:
            self._traffic.answered(self._refused, message.get("body", b""))
            self._refused = 0
        async with asyncio.timeout(self._stall_s):
            await self._send(message)


def hardened(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers plus those of every answer; pages also get a policy. Headers that are already there stay."""
    hardened = list(headers)
    names = {name.lower() for name, _ in hardened}
    more = [*HARDENING]
    if any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in hardened):
        more += [*_PAGE, (b"content-security-policy", _PAGE_POLICY)]
    return hardened + [(name, value) for name, value in more if name not in names]


async def read_body(receive: Receive, announced: bytes | None, *, max_bytes: int, timeout_s: float) -> bytes:
    """The body's bytes. Nothing is read beyond the limit, whether or not a length was announced.

    Raises:
        BodyTooLargeError: if more was announced or arrived.
        BodyTooSlowError: if it is not there in time, or the client went away.
    """
    if announced is not None and (not announced.isdigit() or len(announced) > 18 or int(announced) > max_bytes):
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise BodyTooSlowError("the client went away before the request's body was complete")
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        raise BodyTooSlowError(f"the request's body was not complete within {timeout_s:g} seconds") from error


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body that was read, then the messages after it: the disconnect."""
    left = [body]

    async def receive_again() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        message: dict[str, Any] = await receive()
        return message

    return receive_again


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the request's body is over the limit of {max_bytes} bytes")


def _may(verdict: _Verdict, target: bytes) -> bool:
    if verdict.reads_all or verdict.caller is None:
        return True
    try:
        check_access(verdict.caller, target.partition(b"?")[0])
    except StateError:
        return False
    return True


def _harmless_headers(block: bytes) -> dict[bytes, bytes] | None:
    """The headers by name; None if one may change the answer, or is there twice although only one is allowed.

    Also None if the block is long: `Guard` checks the limits of headers.
    """
    if len(block) > _BLOCK_BYTES or not block.startswith(_VERSION) or block.find(_END) != len(block) - len(_END):
        return None
    headers: dict[bytes, bytes] = {}
    for line in block[_VERSION_BYTES + 2 : -len(_END)].split(b"\r\n"):
        # Split without one regular expression for the whole line: it would try every way to split spaces.
        written, colon, value = line.partition(b":")
        name, value = written.lower(), value.strip(b" \t")
        if not colon or name not in _HARMLESS or (name in headers and name in _AT_MOST_ONCE):
            return None
        if _VALUE.fullmatch(value) is None or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers[name] = value
    length = headers.get(b"content-length")
    if b"host" not in headers or (length is not None and _LENGTH_FORM.fullmatch(length) is None):
        return None
    return headers
