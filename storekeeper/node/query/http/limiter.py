"""How many connections a server has at the same time, in all and from one address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from storekeeper.node.query.protection.request_counts import Traffic

_SAMPLE = 16
"""Connections that are compared to close one of them: all would hold up the event loop in a flood."""
_SAMPLES = 8
"""How many times others are compared if all of a sample have a request on its way, as many newcomers at once have."""
MOST_COMPARED = _SAMPLE * _SAMPLES
"""The most connections that are compared to close one. If none of them can be, the new connection is refused."""


class LimitedConnection(Protocol):
    """A connection, or one that is still in its TLS handshake."""

    @property
    def idle_since_s(self) -> float | None:
        """Since when it has been idle or has sent a part of a request; None while a request is answered."""
        ...

    @property
    def has_unread_request(self) -> bool:
        """Whether the next request may have arrived that nobody has read yet: to close it now would reset it."""
        ...

    def abort(self) -> None:
        """Closes it now."""
        ...


class ConnectionLimiter:
    """Bounds open connections. At a limit, an idle one is closed for the next one.

    A connection is idle unless a whole request is being answered. So connections that send nothing, half a request, or
    no more requests can't keep callers out: of 16 idle ones, in turn, the one that has been idle longest is closed. If
    none can be, the new connection is refused. Belongs to one event loop.
    """

    def __init__(self, most: int, most_of_client: int, traffic: Traffic) -> None:
        self._most = most
        self._most_of_client = most_of_client
        self._traffic = traffic
        self._clients: OrderedDict[LimitedConnection, str] = OrderedDict()
        self._by_client: dict[str, OrderedDict[LimitedConnection, None]] = {}

    def add(self, connection: LimitedConnection, client: str) -> bool:
        """Counts a new connection from an IP address. False if there is no room for it: it must be closed."""
        of_client = self._by_client.get(client, ())
        if len(of_client) >= self._most_of_client:
            if not self._close_idle(of_client, "connections-of-client"):
                return False
        elif len(self._clients) >= self._most and not self._close_idle(self._clients, "connections"):
            return False
        self._clients[connection] = client
        self._by_client.setdefault(client, OrderedDict())[connection] = None
        self._traffic.connections = len(self._clients)
        return True

    def remove(self, connection: LimitedConnection) -> None:
        """Forgets a connection that has ended."""
        client = self._clients.pop(connection, None)
        if client is not None:
            of_client = self._by_client[client]
            del of_client[connection]
            if not of_client:
                del self._by_client[client]
        self._traffic.connections = len(self._clients)

    def _close_idle(self, candidates: Iterable[LimitedConnection], reason: str) -> bool:
        """Closes the one of the next idle connections that has been idle longest. False if none can be closed."""
        self._traffic.refuse(reason)
        return any(self._close_one_of_the_next(candidates) for _ in range(_SAMPLES))

    def _close_one_of_the_next(self, candidates: Iterable[LimitedConnection]) -> bool:
        idle = ((since_s, one) for one in candidates if (since_s := one.idle_since_s) is not None)
        sample = sorted(islice(idle, _SAMPLE), key=lambda entry: entry[0])
        self._move_to_end(sample)
        for _, one in sample:
            if not one.has_unread_request:
                self.remove(one)
                one.abort()
                return True
        return False

    def _move_to_end(self, sample: Iterable[tuple[float, LimitedConnection]]) -> None:
        """The next time others are compared."""
        for _, one in sample:
            self._clients.move_to_end(one)
            self._by_client[self._clients[one]].move_to_end(one)
