"""Requests for rows of other nodes, sent on as they arrive and answered as the other node answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from state.errors import StateError
from state.metrics.latency import LatencyRecorder
from state.query.catalog import Catalog
from state.query.hot_requests import Done
from state.query.peer_health import PeerHealth
from state.query.peer_links import PeerLinks
from state.security.caller import Caller, RequestContext, current_request

PREFIX = b"/state/keyvalue/"
_PLAIN = re.compile(rb"([A-Za-z0-9._@-]+)/([A-Za-z0-9._~!$&'()*+,;=:@-]+)")
_DEADLINE_MS = 1000

Sign = Callable[[bytes, int], bytes]
"""Gives, for a path and the milliseconds left, the lines that prove the origin of a `GET`."""


class HotForward:
    """Belongs to one event loop.

    Args:
        catalog: who holds what.
        links: the way to other nodes.
        health: what this node thinks of another one; a suspect one is left to the router.
        sign: proves to other nodes where a request comes from.
        latency: is told of each answer.

    Attributes:
        sent_total: requests that were sent on.
    """

    def __init__(
        self,
        catalog: Catalog,
        links: PeerLinks,
        health: Callable[[str], PeerHealth],
        sign: Sign,
        latency: LatencyRecorder,
    ) -> None:
        self._catalog = catalog
        self._links = links
        self._health = health
        self._sign = sign
        self._holders: dict[tuple[str, int], str | None] = {}
        self._table = catalog.table
        self._replicas = catalog.replicas
        self.sent_total = 0
        self._latency = latency

    def ask(self, target: bytes, caller: Caller | None, done: Done) -> bool:
        """Sends a request on, if that can be done now: for a plain key of a partition that this node doesn't hold.

        Args:
            target: the path, with nothing demanded.
            caller: who asks; None where nobody is asked who they are.
            done: takes the response, or None if there is none and the request is to be answered in another way.
        """
        found = _PLAIN.fullmatch(target, len(PREFIX)) if target.startswith(PREFIX) else None
        node = None if found is None else self._holder(found[1].decode(), found[2])
        if node is None or self._health(node).suspect:
            return False
        pool = self._links.to(node)
        if pool is None:
            return False
        began_ns = time.perf_counter_ns()

        def answered(response: bytes | None) -> None:
            if response is not None:
                self._latency.record(time.perf_counter_ns() - began_ns)
            done(response)

        lines = self._signed(target, caller)
        sent = pool.ask(b"GET %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (target, pool.host, lines), answered)
        self.sent_total += sent
        return sent

    def _holder(self, store: str, key: bytes) -> str | None:
        """The node to ask; None if there is none, or this node holds the partition itself."""
        catalog = self._catalog
        try:
            where = (store, catalog.partition(store, key))
            if self._table is not catalog.table or self._replicas is not catalog.replicas:
                self._table, self._replicas = catalog.table, catalog.replicas
                self._holders.clear()
            if where not in self._holders:
                others = [node for node in catalog.holders(*where) if node != catalog.node]
                self._holders[where] = others[0] if others and catalog.replica(*where) is None else None
            return self._holders[where]
        except StateError:
            return None

    def _signed(self, target: bytes, caller: Caller | None) -> bytes:
        token = current_request.set(RequestContext(caller, None))
        try:
            return self._sign(target, _DEADLINE_MS)
        finally:
            current_request.reset(token)
