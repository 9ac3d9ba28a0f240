"""The places that connections take: a pool for those that have proven themselves, and one for all others.

A connection is *proven* once it has carried a whole request of an authorized caller. Until then it has a place in the
pool of newcomers. When that pool is full, its oldest connection is closed for the next one. So connections that send
nothing, half a request or no valid token can't keep callers out. A proven connection is closed only while it is idle.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from state.query.protection.traffic import Traffic

_LEAST_NEWCOMERS = 16
PROVEN = "storekeeper.proven"
"""In the `state` of an ASGI scope: to be called once a whole request of an authorized caller was read."""


class Guest(Protocol):
    """A connection, or one that is still in its TLS handshake."""

    @property
    def resting_since_s(self) -> float | None:
        """Since when it has been idle; None while a request is under way."""
        ...

    def abort(self) -> None:
        """Closes it now."""
        ...


class Places:
    """Belongs to one event loop.

    Args:
        most: the most proven connections at the same time; newcomers get half as many places, at least 16.
        most_of_client: the most proven connections from one IP address.
        traffic: counts connections, and those that were closed or refused for lack of room.

    Attributes:
        most_newcomers: places for those that have not proven themselves.
    """

    def __init__(self, most: int, most_of_client: int, traffic: Traffic) -> None:
        self._most = most
        self._most_of_client = most_of_client
        self.most_newcomers = max(_LEAST_NEWCOMERS, most // 2)
        self._traffic = traffic
        self._newcomers: dict[Guest, str] = {}
        self._proven: dict[Guest, str] = {}
        self._by_client: Counter[str] = Counter()

    def enter(self, guest: Guest, client: str) -> None:
        """Gives a new connection from an IP address a place among the newcomers."""
        if len(self._newcomers) >= self.most_newcomers:
            self._turn_out(next(iter(self._newcomers)), "unproven-connections")
        self._newcomers[guest] = client
        self._count()

    def prove(self, guest: Guest) -> bool:
        """Counts a connection as proven. False if all places are taken by connections that aren't idle."""
        client = self._newcomers.get(guest)
        if client is None:
            return guest in self._proven
        if self._by_client[client] >= self._most_of_client:
            if not self._make_room("connections-of-client", client):
                return False
        elif len(self._proven) >= self._most and not self._make_room("connections", None):
            return False
        del self._newcomers[guest]
        self._proven[guest] = client
        self._by_client[client] += 1
        return True

    def leave(self, guest: Guest) -> None:
        """Frees the place of a connection that has ended."""
        self._newcomers.pop(guest, None)
        client = self._proven.pop(guest, None)
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
        self._count()

    def _make_room(self, reason: str, client: str | None) -> bool:
        """Closes the proven connection that has been idle longest, of one IP address or of all."""
        resting = [
            (since_s, guest)
            for guest, of_client in self._proven.items()
            if client in {None, of_client} and (since_s := guest.resting_since_s) is not None
        ]
        if not resting:
            self._traffic.refuse(reason)
            return False
        self._turn_out(min(resting, key=lambda found: found[0])[1], reason)
        return True

    def _turn_out(self, guest: Guest, reason: str) -> None:
        self._traffic.refuse(reason)
        self.leave(guest)
        guest.abort()

    def _count(self) -> None:
        self._traffic.connections = len(self._proven) + len(self._newcomers)
