"""What two nodes say on a link between them: HTTP, and no more of it than is needed.

The node that connects asks for `PATH` and is given a challenge. It asks again, with its name and its answer. Once that
is taken, it sends requests with the lines of `claims`, one at a time.
"""

from __future__ import annotations

import re

from state.security.hop import CALLER, DEADLINE, HOP
from state.security.link_proof import CHALLENGE_BYTES

PATH = b"/state/link"
HELLO = b"GET %b HTTP/1.1\r\n" % PATH
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
NOT_NOW = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
"""There is no hot answer to this request: it is to be asked in another way."""
MOST_BYTES = 16_384
"""Of a request or of the head of an answer."""
_PROOF = b"storekeeper-link-proof"
_HELLO = re.compile(rb"%bhost: [\x21-\x7e]+\r\n\r\n" % re.escape(HELLO))
_CHALLENGE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % CHALLENGE_BYTES
_CHALLENGED = re.compile(rb"%b([0-9a-f]{%d})" % (re.escape(_CHALLENGE), CHALLENGE_BYTES))
_PROVING = re.compile(
    rb"%bhost: [\x21-\x7e]+\r\n%b: ([\x21-\x7e]{1,200})\r\n%b: ([0-9a-f]{64})\r\n\r\n"
    % (re.escape(HELLO), HOP.encode(), _PROOF)
)


def hello(host: bytes) -> bytes:
    """The first request on a connection."""
    return b"%bhost: %b\r\n\r\n" % (HELLO, host)


def is_hello(data: bytes) -> bool:
    """Whether this is that request, whole."""
    return _HELLO.fullmatch(data) is not None


def challenge_response(challenge: bytes) -> bytes:
    """The answer to it."""
    return _CHALLENGE + challenge


def challenge_of(data: bytes) -> bytes | None:
    """The challenge of such an answer; None if it is another one."""
    found = _CHALLENGED.fullmatch(data)
    return None if found is None else found[1]


def proof_request(host: bytes, node: bytes, proof: bytes) -> bytes:
    """The second request."""
    return b"%bhost: %b\r\n%b: %b\r\n%b: %b\r\n\r\n" % (HELLO, host, HOP.encode(), node, _PROOF, proof)


def proof_of(data: bytes) -> tuple[bytes, bytes] | None:
    """The node's name and its proof in such a request; None if it is another one."""
    found = _PROVING.fullmatch(data)
    return None if found is None else (found[1], found[2])


def claims(node: bytes, caller: bytes, deadline_ms: int) -> bytes:
    """The lines of a request that say which node asks, for whom, and for how long the answer is waited for."""
    return b"%b: %b\r\n%b: %b\r\n%b: %d\r\n" % (
        HOP.encode(), node, CALLER.encode(), caller, DEADLINE.encode(), deadline_ms,
    )  # fmt: skip
