"""Requests that may be answered as they arrive: what their headers ask for, and whether their sender may ask.

Clients send the same lines with each request, so a block of lines is judged once and its verdict kept. A request whose
verdict is that it needs more than a hot answer, or that it is to be refused, is the application's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from state.errors import StateError
from state.security.access import check_access
from state.security.caller import Caller
from state.security.gate import Gate
from state.security.hop import CALLER, DEADLINE, HOP, SIGNATURE, HopVerifier

_END = b"\r\n\r\n"
_VERSION = b" HTTP/1.1"
_VERSION_BYTES = len(_VERSION)
_BLOCKS = 512
_BLOCK_BYTES = 2048
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_LENGTH = re.compile(rb"[0-9]{1,5}")
_SIGNATURE = b"\r\n%b: " % SIGNATURE.encode()
_HOP_HEADERS = frozenset({HOP.encode(), CALLER.encode(), DEADLINE.encode()})
_SAID_ONCE = frozenset({b"host", b"authorization", b"content-length", *_HOP_HEADERS})
# A request with any other header than these is the application's: it may change what the answer is.
_HARMLESS = (_SAID_ONCE - _HOP_HEADERS) | {
    b"user-agent",
    b"accept",
    b"accept-encoding",
    b"accept-language",
    b"cache-control",
    b"pragma",
    b"content-type",
    b"connection",
}


Done = Callable[[bytes | None], None]
"""Takes a whole response, or None if there is none."""


@dataclass(frozen=True, slots=True)
class HotAnswers:
    """What is answered in front of an application.

    Attributes:
        prefix: requests for paths that begin so are offered first.
        answer: the whole response to a `GET` of a target, or None to leave it to the application.
        post: the same for a `POST` with a body.
        hop_answer: the same for a `GET` that another node sends on.
        elsewhere: sends a `GET` on to another node and returns True, if that can be done; then it calls `done`.
        accepts_host: whether a `Host` header is one to answer.
        gate: knows who may ask; None if nobody is asked who they are.
        hops: tells what other nodes have sent; None if none of their requests is answered here.
    """

    prefix: bytes
    answer: Callable[[bytes], bytes | None]
    post: Callable[[bytes, bytes], bytes | None] = lambda _target, _body: None
    hop_answer: Callable[[bytes], bytes | None] = lambda _: None
    elsewhere: Callable[[bytes, Caller | None, Done], bool] = lambda _target, _caller, _done: False
    accepts_host: Callable[[bytes], bool] = lambda _: True
    gate: Gate | None = None
    hops: HopVerifier | None = None


NO_HOT_ANSWERS = HotAnswers(b"\r", lambda _: None)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A block's requests may have a hot answer. `caller` is None where nobody is asked who they are."""

    body_bytes: int | None
    caller: Caller | None
    reads_all: bool = True
    hop: Mapping[bytes, bytes] | None = None


class HotRequests:
    """Recognizes hot requests and answers them. Belongs to one event loop."""

    def __init__(self, hot: HotAnswers) -> None:
        self._answer = hot.answer
        self._post = hot.post
        self._accepts_host = hot.accepts_host
        self._gate = hot.gate
        self._hops = hot.hops
        self._hop_answer = hot.hop_answer
        self._elsewhere = hot.elsewhere
        self._verdicts: dict[bytes, _Verdict | None] = {}
        self._revision = 0
        self._get = b"GET " + hot.prefix
        self._posted = b"POST " + hot.prefix

    def response(self, data: bytes) -> bytes | None:
        """The whole response, if `data` is one whole request that can be answered now; None leaves it to others."""
        if data.startswith(self._get):
            line_end = data.find(b"\r\n")
            version = line_end - _VERSION_BYTES
            # A block that is known ends with the only empty line, so the segment is one whole request.
            verdict = self._verdict(data[version:])
            if verdict is None:
                return self._hop_response(data, version) if self._hops is not None else None
            target = data[4:version]
            return self._answer(target) if verdict.body_bytes is None and _may(verdict, target) else None
        return self._posted_response(data) if data.startswith(self._posted) else None

    def elsewhere(self, data: bytes, done: Done) -> bool:
        """Sends a request on that has no response here; True if `done` will be called with another node's."""
        if not data.startswith(self._get):
            return False
        version = data.find(b"\r\n") - _VERSION_BYTES
        verdict = self._verdict(data[version:])
        target = data[4:version]
        if verdict is None or verdict.body_bytes is not None or not _may(verdict, target):
            return False
        return self._elsewhere(target, verdict.caller, done)

    def _posted_response(self, data: bytes) -> bytes | None:
        head_end = data.find(_END) + len(_END)
        version = data.find(b"\r\n") - _VERSION_BYTES
        verdict = self._verdict(data[version:head_end])
        if verdict is None or verdict.body_bytes != len(data) - head_end:
            return None
        target = data[5:version]
        return self._post(target, data[head_end:]) if _may(verdict, target) else None

    def _hop_response(self, data: bytes, version: int) -> bytes | None:
        """The same for a request of another node: its last line is new each time, those before it are not."""
        at = data.find(_SIGNATURE)
        signature = data[at + len(_SIGNATURE) : -len(_END)]
        if at < 0 or not data.endswith(_END) or b"\r" in signature or b"\n" in signature:
            return None
        verdict = self._verdict(data[version:at] + _END, hop=True)
        if verdict is None or verdict.hop is None or self._hops is None:
            return None
        target = data[4:version]
        try:
            claim = self._hops.proven("GET", target, b"", {**verdict.hop, SIGNATURE.encode(): signature})
            if self._gate is not None and not self._gate.open:
                check_access(self._gate.caller_of(claim.hop), target.partition(b"?")[0])
            response = self._hop_answer(target)
            if response is not None:
                # Only now: a number is good once, and the application would have to take it, too.
                self._hops.admit(claim)
        except StateError:
            return None
        return response

    def _verdict(self, block: bytes, *, hop: bool = False) -> _Verdict | None:
        """`block`: from the HTTP version to the empty line, included. Whatever is behind that makes it none."""
        gate = self._gate
        if gate is not None and gate.revision != self._revision:
            self._revision = gate.revision
            self._verdicts.clear()
        known = self._verdicts.get(block, _UNKNOWN)
        if known is _UNKNOWN:
            if _SIGNATURE in block:
                return None  # another node's request: its last line never comes again
            known = self._judged(block, hop=hop)
            if len(block) <= _BLOCK_BYTES:
                if len(self._verdicts) >= _BLOCKS:
                    self._verdicts.clear()
                self._verdicts[block] = known
        return known

    def _judged(self, block: bytes, *, hop: bool) -> _Verdict | None:
        found = _harmless_headers(block, _HARMLESS | _HOP_HEADERS if hop else _HARMLESS)
        if found is None or not self._accepts_host(found[b"host"]):
            return None
        length = found.get(b"content-length")
        body_bytes = None if length is None else int(length)
        if hop:
            claims = {name: found[name] for name in _HOP_HEADERS & found.keys()}
            return _Verdict(None, None, hop=claims) if length is None else None
        if self._gate is None or self._gate.open:
            return _Verdict(body_bytes, None)
        try:
            caller = self._gate.caller(found.get(b"authorization"))
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


def _harmless_headers(block: bytes, harmless: frozenset[bytes]) -> dict[bytes, bytes] | None:
    """What the lines say; None if one of them may change the answer, or says twice what may be said once."""
    if not block.startswith(_VERSION) or block.find(_END) != len(block) - len(_END):
        return None
    found: dict[bytes, bytes] = {}
    for line in block[_VERSION_BYTES + 2 : -len(_END)].split(b"\r\n"):
        match = _HEADER.fullmatch(line)
        name = b"" if match is None else match[1].lower()
        if match is None or name not in harmless or (name in found and name in _SAID_ONCE):
            return None
        if name == b"connection" and match[2].lower() != b"keep-alive":
            return None
        found[name] = match[2]
    length = found.get(b"content-length")
    if b"host" not in found or (length is not None and _LENGTH.fullmatch(length) is None):
        return None
    return found
