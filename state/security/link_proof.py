"""How a node proves itself on a connection to another one: once, by an answer to the other one's challenge.

From then on the connection is that node's. Nobody else can write to it: beyond loopback TLS sees to that, on loopback
the system does. So the requests on it need no signatures of their own.
"""

from __future__ import annotations

import hmac
import secrets

from state.security.cluster_secret import derived

CHALLENGE_BYTES = 32


class LinkProofs:
    """Makes and checks such proofs for one node. Safe from any thread.

    Args:
        node: this node's name.
        secret: the cluster's.
    """

    def __init__(self, node: str, secret: bytes) -> None:
        self.node = node.encode("latin-1", "replace")
        self._key = derived(secret, "link")

    def challenge(self) -> bytes:
        """What a node that has connected must answer: `CHALLENGE_BYTES` hexadecimal digits, never the same."""
        return secrets.token_hex(CHALLENGE_BYTES // 2).encode()

    def answer(self, challenge: bytes, asked: bytes) -> bytes:
        """Proves to node `asked`, whose challenge it is, that this node has the secret: hexadecimal digits."""
        return self._proof(challenge, self.node, asked)

    def proves(self, answer: bytes, challenge: bytes, asking: bytes) -> bool:
        """Whether node `asking` gave this answer to this node's challenge."""
        return hmac.compare_digest(self._proof(challenge, asking, self.node), answer)

    def _proof(self, challenge: bytes, asking: bytes, asked: bytes) -> bytes:
        # Both names are in it, so that a proof can't be passed on to a third node, or back.
        parts = b"%d:%b%d:%b%d:%b" % (len(challenge), challenge, len(asking), asking, len(asked), asked)
        return hmac.digest(self._key, parts, "sha256").hex().encode()
