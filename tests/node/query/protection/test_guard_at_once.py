"""What is answered in front of the guard: whole plain requests of those who may ask, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tokens import write_callers
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.node.query.protection.guard import Guard, GuardLimits
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.security.access import (
    Authenticator,
    Caller,
    HostRule,
    Role,
    TokenBook,
    new_token,
)
from storekeeper.node.security.hop import HopVerifier
from tests.test_trace_context import TRACE

ALL, ONE, MONITOR = (new_token().encode() for _ in range(3))
BODY = b'{"keys":["k"]}'


class Echo(HotReads):
    """Answers with what it is asked."""

    def __init__(self) -> None:
        pass

    def now(self, target: bytes) -> bytes:
        return b"GET " + target

    def posted(self, target: bytes, body: bytes) -> bytes:
        return b"POST " + target + body


def hot(authenticator: Authenticator | None = None, max_body_bytes: int = 1 << 20) -> Guard:
    clock = SystemClock()
    return Guard(
        None,
        "a",
        limits=GuardLimits(max_body_bytes=max_body_bytes),
        authenticator=authenticator or Authenticator(),
        hops=HopVerifier("a", b"s" * 32, clock),
        hosts=HostRule(["h"]),
        hot=Echo(),
    )


def asked(*lines: bytes, target: bytes = b"/state/keyvalue/s/k") -> bytes:
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", b"Host: h", *lines, b"", b""])


def posted(body: bytes = BODY, *lines: bytes, target: bytes = b"/state/keyvalues/s") -> bytes:
    length = b"content-length: %d" % len(body)
    return b"\r\n".join([b"POST " + target + b" HTTP/1.1", b"host: h", length, *lines, b"", body])


class Tokens:
    """An authenticator with three tokens: one reads all, one reads store `s` only, one reads none."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tokens"
        self.clock = ManualClock()
        self.write(ALL, ONE, MONITOR)
        self.hot = hot(Authenticator(TokenBook(self.path, self.clock)))

    def write(self, *tokens: bytes) -> None:
        callers = {
            ALL: Caller("all", frozenset({Role.READER})),
            ONE: Caller("one", frozenset({Role.READER}), frozenset({"s"})),
            MONITOR: Caller("monitor", frozenset({Role.MONITOR})),
        }
        write_callers(self.path, {token.decode(): callers[token] for token in tokens})

    def get(self, token: bytes | None, store: bytes = b"s") -> bytes | None:
        lines = () if token is None else (b"Authorization: Bearer " + token,)
        return self.hot.now(asked(*lines, target=b"/state/keyvalue/%b/k" % store))


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def test_plain_requests_are_answered_again_and_again() -> None:
    requests = hot()
    for _ in range(2):
        assert requests.now(asked()) == b"GET /state/keyvalue/s/k"
        assert requests.now(asked(b"User-Agent: x", b"accept: */*")) == b"GET /state/keyvalue/s/k"
        assert requests.now(asked(b"Connection: keep-alive")) == b"GET /state/keyvalue/s/k"
        assert requests.now(posted()) == b"POST /state/keyvalues/s" + BODY
        assert requests.now(posted(BODY, b"content-type: application/json")) is not None


@pytest.mark.parametrize(
    "data",
    [
        asked(b"storekeeper-hop: b"),
        asked(b"transfer-encoding: chunked"),
        asked(b"connection: close"),
        asked(b"sec-fetch-site: cross-site"),
        asked(b"traceparent: " + TRACE),
        asked(b"host: h"),
        asked(b"content-length: 0"),
        asked(target=b"/state/ranked/s/top"),
        asked() + asked(),
        asked()[:-2],
        asked().replace(b"Host: h", b"Host: other"),
        asked().replace(b"HTTP/1.1", b"HTTP/1.0"),
        asked().replace(b"Host: h\r\n", b""),
        asked().replace(b"Host: h", b"Host h"),
        posted()[:-1],
        posted() + b"x",
        posted() + asked(),
        posted(BODY, b"content-length: 3"),
        posted(BODY, b"transfer-encoding: chunked"),
        posted(BODY, b"expect: 100-continue"),
        posted().replace(b"content-length: 14", b"content-length: +14"),
        posted().replace(b"POST", b"PUT"),
    ],
)
def test_whatever_is_unusual_is_left_to_the_application(data: bytes) -> None:
    requests = hot()
    for _ in range(2):
        assert requests.now(data) is None


def test_a_body_that_holds_a_request_is_no_request() -> None:
    assert hot().now(posted(asked())) == b"POST /state/keyvalues/s" + asked()


def test_a_token_is_needed_where_there_are_tokens(tokens: Tokens) -> None:
    for _ in range(2):
        assert tokens.get(ALL) is not None
        assert tokens.get(None) is None
        assert tokens.get(new_token().encode()) is None
        assert tokens.get(ALL[:-1]) is None
        assert tokens.get(MONITOR) is None


def test_a_token_reads_its_own_stores_only(tokens: Tokens) -> None:
    for _ in range(2):
        assert tokens.get(ONE) is not None
        assert tokens.get(ONE, b"other") is None
        assert tokens.get(ONE, b"%6fther") is None
        assert tokens.get(ALL, b"other") is not None
    bearer = b"authorization: Bearer " + ONE
    assert tokens.hot.now(posted(BODY, bearer)) is not None
    assert tokens.hot.now(posted(BODY, bearer, target=b"/state/keyvalues/other")) is None


def test_a_token_that_is_removed_is_refused_although_it_was_known(tokens: Tokens) -> None:
    assert tokens.get(ALL) is not None
    assert tokens.get(ONE) is not None
    tokens.write(ONE)
    tokens.clock.advance(2_000)
    assert tokens.get(ALL) is None
    assert tokens.get(ONE) is not None
    tokens.write(ALL, ONE)
    tokens.clock.advance(2_000)
    assert tokens.get(ALL) is not None


def test_whoever_has_a_certificate_may_ask_where_no_token_is_needed() -> None:
    assert hot(Authenticator(certificates=True)).now(asked()) is not None


def test_what_is_remembered_of_requests_is_bounded() -> None:
    requests = hot()
    for number in range(2000):
        assert requests.now(asked(b"user-agent: %d" % number)) is not None
    assert len(requests._verdicts) <= 512


@pytest.mark.timeout(60)
def test_no_line_takes_long_to_read() -> None:
    requests = hot()
    for number in range(100):
        spaces = b" " * 1900 + b"%d" % number
        assert requests.now(asked(b"accept:" + spaces + b" " * 20 + b"\x01")) is None
        assert requests.now(asked(b"accept:" + spaces + b"\t ")) is not None


def test_what_may_be_over_a_limit_is_left_to_who_knows_the_limits() -> None:
    assert hot().now(asked(b"user-agent: " + b"x" * 5000)) is None
    assert hot().now(asked(*[b"accept: x"] * 500)) is None
    small = hot(max_body_bytes=len(BODY))
    assert small.now(posted(BODY)) is not None
    assert small.now(posted(BODY + b" ")) is None
