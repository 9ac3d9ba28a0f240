"""The first words on a link, as the node says them that has connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from state.query.link_wire import MOST_BYTES, TAKEN, challenge_of, hello, proof_request
from state.security.link_proof import LinkProofs

LinkT = TypeVar("LinkT", bound=asyncio.Protocol)


class Introduction(asyncio.Protocol, Generic[LinkT]):
    """Proves this node on a new connection, then hands the connection to a link.

    Args:
        host: what the `Host` header has to say.
        asked: the name of the node that is connected to.
        proofs: this node's.
        link: takes the connection over, once it is proven.

    Attributes:
        taken: has the link as its result, or a ConnectionError if the other node would not have it.
    """

    def __init__(
        self, host: bytes, asked: bytes, proofs: LinkProofs, link: Callable[[asyncio.Transport], LinkT]
    ) -> None:
        self.taken: asyncio.Future[LinkT] = asyncio.get_running_loop().create_future()
        self._host = host
        self._asked = asked
        self._proofs = proofs
        self._link = link
        self._transport: asyncio.Transport
        self._challenged = False
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks for a challenge."""
        self._transport = transport  # type: ignore[assignment]
        self._transport.write(hello(self._host))

    def data_received(self, data: bytes) -> None:
        """The challenge, or what came of its answer."""
        self._heard += data
        challenge = None if self._challenged else challenge_of(self._heard)
        if challenge is not None:
            self._challenged, self._heard = True, b""
            proof = self._proofs.answer(challenge, self._asked)
            self._transport.write(proof_request(self._host, self._proofs.node, proof))
        elif self._challenged and self._heard == TAKEN:
            link = self._link(self._transport)
            self._transport.set_protocol(link)
            if not self.taken.done():
                self.taken.set_result(link)
        elif len(self._heard) > MOST_BYTES:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other node doesn't know links, or this one, or is gone."""
        if not self.taken.done():
            self.taken.set_exception(ConnectionError("the other node has ended the connection"))
