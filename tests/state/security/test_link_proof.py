"""Proofs of connections between nodes."""

from __future__ import annotations

import pytest

from state.security.link_proof import CHALLENGE_BYTES, LinkProofs

SECRET = b"s" * 32


def test_a_node_proves_itself_to_the_one_that_it_has_called() -> None:
    a, b = LinkProofs("a", SECRET), LinkProofs("b", SECRET)
    challenge = b.challenge()
    assert len(challenge) == CHALLENGE_BYTES
    assert b.proves(a.answer(challenge, b"b"), challenge, b"a")


def test_a_challenge_is_never_the_same() -> None:
    proofs = LinkProofs("a", SECRET)
    assert len({proofs.challenge() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("node", "secret", "asked", "claimed", "same_challenge"),
    [
        ("a", b"x" * 32, b"b", b"a", True),
        ("a", SECRET, b"c", b"a", True),
        ("a", SECRET, b"b", b"c", True),
        ("a", SECRET, b"b", b"a", False),
        ("b", SECRET, b"a", b"a", True),
    ],
    ids=["another secret", "meant for a third node", "of another node", "of another challenge", "the other way round"],
)
def test_any_other_proof_is_none(node: str, secret: bytes, asked: bytes, claimed: bytes, same_challenge: bool) -> None:
    asking, b = LinkProofs(node, secret), LinkProofs("b", SECRET)
    challenge = b.challenge()
    answer = asking.answer(challenge if same_challenge else b.challenge(), asked)
    assert not b.proves(answer, challenge, claimed)
