"""The other end of a link: who has not proven itself is told nothing."""

from __future__ import annotations

import pytest

from state.query.link_end import LinkEnd
from state.query.link_wire import NOT_NOW, TAKEN, challenge_of, hello, proof_request
from state.security.link_proof import LinkProofs

A, B = LinkProofs("a", b"s" * 32), LinkProofs("b", b"s" * 32)
ASK = b"GET /state/keyvalue/s/k HTTP/1.1\r\nhost: h\r\n\r\n"


def end() -> LinkEnd:
    return LinkEnd(B, lambda node, data: node + data if b"/k " in data else None)


def challenged(link: LinkEnd) -> bytes:
    challenge = challenge_of(link.response(hello(b"h")) or b"")
    assert challenge is not None
    return challenge


def test_a_node_that_has_proven_itself_is_answered() -> None:
    link = end()
    assert link.response(proof_request(b"h", b"a", A.answer(challenged(link), b"b"))) == TAKEN
    assert link.response(ASK) == b"a" + ASK
    assert link.response(ASK.replace(b"/k ", b"/other ")) == NOT_NOW
    assert link.response(ASK[:30]) == b""
    assert link.response(ASK[30:]) == b"a" + ASK


@pytest.mark.parametrize(
    "second",
    [ASK, hello(b"h"), proof_request(b"h", b"a", b"0" * 64), proof_request(b"h", b"a", A.answer(b"0" * 32, b"b"))],
    ids=["a request", "another greeting", "no proof", "the answer to another challenge"],
)
def test_anyone_else_is_not_answered(second: bytes) -> None:
    link = end()
    challenged(link)
    assert link.response(second) is None


@pytest.mark.parametrize("first", [ASK, hello(b"h") + hello(b"h"), hello(b"h").replace(b"host", b"cookie")])
def test_a_link_begins_with_its_greeting(first: bytes) -> None:
    assert end().response(first) is None


def test_a_proof_that_was_overheard_is_of_no_use() -> None:
    link, again = end(), end()
    proof = proof_request(b"h", b"a", A.answer(challenged(link), b"b"))
    assert link.response(proof) == TAKEN
    challenged(again)
    assert again.response(proof) is None


def test_an_endless_request_ends_the_connection() -> None:
    link = end()
    assert link.response(b"GET " + b"x" * 10_000) == b""
    assert link.response(b"x" * 10_000) is None
    assert end().response(hello(b"h") + b"x") is None
