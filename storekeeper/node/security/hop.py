"""Requests from node to node: signed with the cluster's secret, good once, at one node, for one method, path and body.

| header                      | holds                                                                                |
|-----------------------------|--------------------------------------------------------------------------------------|
| `storekeeper-hop`           | the asking node's name                                                               |
| `storekeeper-caller`        | for whom it asks: a token's name, or `*anonymous`, `*certificate`, `*node` (itself)  |
| `storekeeper-deadline-ms`   | how much time is left for the answer                                                 |
| `storekeeper-hop-signature` | `session.number.timestamp_ms.digest.signature`, over all of this, the asked node's   |
|                             | name, method and path; `digest` is the body's SHA-256: it is read for nodes only     |

Each node numbers the requests of its session, which is a random number made at its start. The receiver accepts each
number once and refuses numbers far behind the highest, as IPsec does: memory doesn't grow with the traffic.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from storekeeper.clock import Clock
from storekeeper.errors import StateError
from storekeeper.node.security.cluster_secret import derived

HOP = "storekeeper-hop"
CALLER = "storekeeper-caller"
DEADLINE = "storekeeper-deadline-ms"
SIGNATURE = "storekeeper-hop-signature"

FOR_ITSELF = "*node"
ANONYMOUS = "*anonymous"
CERTIFICATE = "*certificate"
"""No token can have such a name."""
asked_for: ContextVar[str] = ContextVar("asked_for", default=FOR_ITSELF)
"""The caller that the running task asks other nodes for, as the header names it."""

WINDOW_MS = 30_000
"""How far the clocks of two nodes may differ, and how long a request stays valid."""
_NAMES = tuple(name.encode() for name in (HOP, CALLER, DEADLINE, SIGNATURE))
NO_BODY = hashlib.sha256(b"").hexdigest().encode()
_NUMBERS = 8192
_SESSIONS = 1024
_LONGEST_FIELD = 200


class HopRefusedError(StateError):
    """A request claims to come from another node of the cluster, and does not prove it."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A proven request from another node. `caller` is as in the header, `body_digest` hexadecimal."""

    node: str
    caller: str
    body_digest: bytes = NO_BODY

    def check_body(self, body: bytes) -> None:
        """Checks the received body.

        Raises:
            HopRefusedError: it is another one.
        """
        if _digest(body) != self.body_digest:
            raise HopRefusedError("the body is not that of the request between nodes")


class HopSigner:
    """Makes the headers of requests to other nodes. Safe from any thread.

    `caller` gives the one that the current task asks for.
    """

    def __init__(self, node: str, secret: bytes, clock: Clock, caller: Callable[[], str] = asked_for.get) -> None:
        self._node = node.encode("latin-1", "replace")
        self._key = derived(secret, "hop")
        self._clock = clock
        self._caller = caller
        self._session = secrets.token_hex(8).encode()
        self._number = 0

    def __call__(self, asked: str, method: str, target: str, body: bytes, deadline_ms: int) -> Mapping[str, str]:
        """The headers for a request to node `asked`. `target` is the path with its query string, as it is sent."""
        caller, deadline = self._caller().encode("latin-1", "replace"), b"%d" % deadline_ms
        stamp = b"%b.%b" % (self._stamp(), _digest(body))
        signed = _signed(
            asked.encode("latin-1", "replace"), method.encode(), target.encode(), self._node, caller, deadline, stamp
        )
        signature = b"%b.%b" % (stamp, hmac.digest(self._key, signed, "sha256").hex().encode())
        headers = {HOP: self._node, CALLER: caller, DEADLINE: deadline, SIGNATURE: signature}
        return {name: value.decode("latin-1") for name, value in headers.items()}

    def _stamp(self) -> bytes:
        self._number += 1
        return b"%b.%d.%d" % (self._session, self._number, self._clock.now_ms())


class HopVerifier:
    """Checks such requests to one node. Belongs to one event loop.

    Requests to another node are refused here, even if they are passed on.
    """

    def __init__(self, node: str, secret: bytes, clock: Clock) -> None:
        self._node = node.encode("latin-1", "replace")
        self._key = derived(secret, "hop")
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, bytes], ReplayWindow] = OrderedDict()

    def verify(self, method: str, target: bytes, headers: Mapping[bytes, bytes]) -> Hop:
        """Who asks, for whom. Check the body once it is there.

        Raises:
            HopRefusedError: if the signature is missing, wrong, too old, or was used before.
        """
        node, caller, deadline, signature = [headers.get(name, b"") for name in _NAMES]
        stamp, _, mac = signature.rpartition(b".")
        if max(len(node), len(caller), len(deadline), len(signature)) > _LONGEST_FIELD:
            raise HopRefusedError("a header of the request between nodes is too long")
        signed = _signed(self._node, method.encode(), target, node, caller, deadline, stamp)
        expected = hmac.digest(self._key, signed, "sha256")
        if not hmac.compare_digest(expected.hex().encode(), mac):
            raise HopRefusedError(
                "the request is not signed for this node by a member of its cluster: all nodes need the same secret"
            )
        session, number, timestamp_ms, digest = stamp.split(b".")  # signed, so written by a signer
        name = node.decode("latin-1")
        self._check_fresh(name, session, int(number), int(timestamp_ms))
        return Hop(name, caller.decode("latin-1"), digest)

    def _check_fresh(self, node: str, session: bytes, number: int, timestamp_ms: int) -> None:
        apart_ms = self._clock.now_ms() - timestamp_ms
        if abs(apart_ms) > WINDOW_MS:
            msg = f"the request of node {node} is {apart_ms} ms old: set the nodes' clocks to the same time"
            raise HopRefusedError(msg)
        window = self._sessions.get((node, session))
        if window is None:
            window = self._sessions[node, session] = ReplayWindow()
            self._forget_old()
        if not window.admit(number, self._clock.now_ms()):
            raise HopRefusedError(f"the request of node {node} was sent before")

    def _forget_old(self) -> None:
        """Removes sessions of nodes that are gone. Sessions within the window are kept, however many there are."""
        before_ms = self._clock.now_ms() - 2 * WINDOW_MS
        if len(self._sessions) > _SESSIONS:
            for key in [key for key, window in self._sessions.items() if window.used_ms < before_ms]:
                del self._sessions[key]


class ReplayWindow:
    """Takes each number once. Numbers may arrive out of order, but not 8192 behind the highest."""

    def __init__(self) -> None:
        self.used_ms = 0
        self._highest = 0
        self._seen = array("Q", bytes(8 * _NUMBERS))  # the last number accepted in each place

    def admit(self, number: int, now_ms: int) -> bool:
        """Whether the number, 1 or more, is new."""
        self.used_ms = now_ms
        place = number % _NUMBERS
        if number <= self._highest - _NUMBERS or self._seen[place] == number:
            return False
        self._highest = max(self._highest, number)
        self._seen[place] = number
        return True


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() if body else NO_BODY


def _signed(*parts: bytes) -> bytes:
    """Every part with its length before it, so that no two requests look alike."""
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])
