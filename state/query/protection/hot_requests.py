"""Requests that may be answered as they arrive: checks their headers and their caller.

Clients send the same header lines with each request, so a block of lines is checked once and the verdict is kept. A
request that needs more than a hot answer, or must be refused, goes to the application.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from state.errors import StateError
from state.security.access import Caller, check_access
from state.security.authenticator import Authenticator

_END = b"\r\n\r\n"
_VERSION = b" HTTP/1.1"
_VERSION_BYTES = len(_VERSION)
_BLOCKS = 512
_BLOCK_BYTES = 2048
_VALUE = re.compile(rb"[\x20-\x7e\x80-\xff\t]*")
_LENGTH = re.compile(rb"[0-9]{1,5}")
_SAID_ONCE = frozenset({b"host", b"authorization", b"content-length"})
# A request with any other header goes to the application: the header may change the answer.
_HARMLESS = _SAID_ONCE | {
    b"user-agent",
    b"accept",
    b"accept-encoding",
    b"accept-language",
    b"cache-control",
    b"pragma",
    b"content-type",
    b"connection",
}


@dataclass(frozen=True, slots=True)
class HotAnswers:
    """The requests that are answered in front of an application.

    Attributes:
        prefix: only requests for paths with this prefix are offered.
        answer: the whole response to a `GET` of a target, or None to leave it to the application.
        post: the same for a `POST` with a body.
        max_body_bytes: longer bodies are left to the application.
        accepts_host: whether a `Host` header is accepted.
        authenticator: checks callers; None if anybody may ask.
    """

    prefix: bytes
    answer: Callable[[bytes], bytes | None]
    post: Callable[[bytes, bytes], bytes | None] = lambda _target, _body: None
    max_body_bytes: int = 99_999
    accepts_host: Callable[[bytes], bool] = lambda _: True
    authenticator: Authenticator | None = None


NO_HOT_ANSWERS = HotAnswers(b"\r", lambda _: None)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Requests with this block may have a hot answer. `caller` is None if anybody may ask."""

    body_bytes: int | None
    caller: Caller | None
    reads_all: bool = True


class HotRequests:
    """Recognizes hot requests and answers them. Belongs to one event loop."""

    def __init__(self, hot: HotAnswers) -> None:
        self._answer = hot.answer
        self._post = hot.post
        self._accepts_host = hot.accepts_host
        self._authenticator = hot.authenticator
        self._max_body_bytes = hot.max_body_bytes
        self._verdicts: dict[bytes, _Verdict | None] = {}
        self._revision = 0
        self._get = b"GET " + hot.prefix
        self._posted = b"POST " + hot.prefix

    def response(self, data: bytes) -> bytes | None:
        """The whole response, if `data` is one whole request that can be answered now; None leaves it to the app."""
        if data.startswith(self._get):
            line_end = data.find(b"\r\n")
            version = line_end - _VERSION_BYTES
            # A known block ends with the only empty line, so the segment is one whole request.
            verdict = self._verdict(data[version:])
            if verdict is None or verdict.body_bytes is not None:
                return None
            target = data[4:version]
            return self._answer(target) if _may(verdict, target) else None
        return self._posted_response(data) if data.startswith(self._posted) else None

    def _posted_response(self, data: bytes) -> bytes | None:
        head_end = data.find(_END) + len(_END)
        version = data.find(b"\r\n") - _VERSION_BYTES
        verdict = self._verdict(data[version:head_end])
        body_bytes = len(data) - head_end
        if verdict is None or verdict.body_bytes != body_bytes or body_bytes > self._max_body_bytes:
            return None
        target = data[5:version]
        return self._post(target, data[head_end:]) if _may(verdict, target) else None

    def _verdict(self, block: bytes) -> _Verdict | None:
        """`block`: from the HTTP version to the empty line, inclusive. With anything after that there is no verdict."""
        authenticator = self._authenticator
        if authenticator is not None and authenticator.revision != self._revision:
            self._revision = authenticator.revision
            self._verdicts.clear()
        known = self._verdicts.get(block, _UNKNOWN)
        if known is _UNKNOWN:
            known = self._judged(block)
            if len(block) <= _BLOCK_BYTES:
                if len(self._verdicts) >= _BLOCKS:
                    self._verdicts.clear()
                self._verdicts[block] = known
        return known

    def _judged(self, block: bytes) -> _Verdict | None:
        found = _harmless_headers(block)
        if found is None or not self._accepts_host(found[b"host"]):
            return None
        length = found.get(b"content-length")
        body_bytes = None if length is None else int(length)
        if self._authenticator is None or self._authenticator.open:
            return _Verdict(body_bytes, None)
        try:
            caller = self._authenticator.caller(found.get(b"authorization"))
        except StateError:
            return None
        return _Verdict(body_bytes, caller, caller.reads_all)


_UNKNOWN = _Verdict(None, None)


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

    Also None if the block is long: the application checks the limits of headers.
    """
    if len(block) > _BLOCK_BYTES or not block.startswith(_VERSION) or block.find(_END) != len(block) - len(_END):
        return None
    found: dict[bytes, bytes] = {}
    for line in block[_VERSION_BYTES + 2 : -len(_END)].split(b"\r\n"):
        # Split without one regular expression for the whole line: it would try every way to split spaces.
        written, colon, value = line.partition(b":")
        name, value = written.lower(), value.strip(b" \t")
        if not colon or name not in _HARMLESS or (name in found and name in _SAID_ONCE):
            return None
        if _VALUE.fullmatch(value) is None or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        found[name] = value
    length = found.get(b"content-length")
    if b"host" not in found or (length is not None and _LENGTH.fullmatch(length) is None):
        return None
    return found
