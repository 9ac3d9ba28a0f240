"""The other end of a link: a connection on which another node proves itself, and then asks."""

from __future__ import annotations

from collections.abc import Callable

from state.query.link_wire import MOST_BYTES, NOT_NOW, TAKEN, challenge_response, is_hello, proof_of
from state.security.link_proof import LinkProofs

_END = b"\r\n\r\n"


class LinkEnd:
    """Belongs to one connection, from its first request on.

    Args:
        proofs: tell whether the other node is what it says.
        answer: gives the whole response to a request of a proven node, or None if there is none now.
    """

    def __init__(self, proofs: LinkProofs, answer: Callable[[bytes, bytes], bytes | None]) -> None:
        self._proofs = proofs
        self._answer = answer
        self._challenge = b""
        self._node = b""
        self._begun = b""

    @property
    def in_request(self) -> bool:
        """Whether a request has begun and isn't complete."""
        return bool(self._begun)

    @property
    def proven(self) -> bool:
        """Whether the other end has proven to be a node of the cluster."""
        return bool(self._node)

    def response(self, data: bytes) -> bytes | None:
        """What to write now, which is nothing while a request isn't complete; None if the connection is to end."""
        if self._begun:
            data = self._begun + data
        if not data.endswith(_END):
            self._begun = data
            return b"" if len(data) <= MOST_BYTES and _END not in data else None
        self._begun = b""
        if self._node:
            return self._answer(self._node, data) or NOT_NOW
        return self._introduced(data)

    def _introduced(self, data: bytes) -> bytes | None:
        if not self._challenge:
            self._challenge = self._proofs.challenge()
            return challenge_response(self._challenge) if is_hello(data) else None
        said = proof_of(data)
        if said is None or not self._proofs.proves(said[1], self._challenge, said[0]):
            return None
        self._node = said[0]
        return TAKEN
