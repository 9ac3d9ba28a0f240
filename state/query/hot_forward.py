"""Requests for rows of other nodes, sent on as they arrive and answered as the other node answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from state.errors import StateError
from state.metrics.latency import LatencyRecorder
from state.query.catalog import Catalog
from state.query.hot_requests import Done
from state.query.peer_health import PeerHealth
from state.query.peer_links import PeerLinks
from state.security.caller import Caller

PREFIX = b"/state/keyvalue/"
_PLAIN = re.compile(rb"([A-Za-z0-9._@-]+)/((?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)")
_PATIENCE_S = 0.1
"""How long the only holder of some rows is waited for, before the router is."""
_SAMPLED = 16
_NOBODY: tuple[str | None, bool] = (None, True)

NameOf = Callable[[Caller | None], str]
"""How a caller is called between nodes."""


class HotForward:
    """Belongs to one event loop.

    Args:
        catalog: who holds what.
        links: the way to other nodes.
        health: what this node thinks of another one; a suspect one is left to the router.
        name_of: says to other nodes for whom this one asks.
        latency: is told of each answer.

    Attributes:
        sent_total: requests that were sent on.
    """

    def __init__(
        self,
        catalog: Catalog,
        links: PeerLinks,
        health: Callable[[str], PeerHealth],
        name_of: NameOf,
        latency: LatencyRecorder,
    ) -> None:
        self._catalog = catalog
        self._links = links
        self._health = health
        self._name_of = name_of
        self._holders: dict[tuple[str, int], tuple[str | None, bool]] = {}
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
        node, alone = self._holder(found[1].decode(), _decoded(found[2])) if found is not None else _NOBODY
        if node is None:
            return False
        health, pool = self._health(node), self._links.to(node)
        if pool is None or health.suspect:
            return False
        began_ns = time.perf_counter_ns()
        patience_s = _PATIENCE_S if alone else health.hedge_delay_s

        def answered(response: bytes | None) -> None:
            took_ns = time.perf_counter_ns() - began_ns
            if response is not None:
                self._latency.record(took_ns)
                if self.sent_total % _SAMPLED == 0:
                    health.answered(took_ns / 1e9)
            elif not alone and took_ns / 1e9 >= patience_s:
                health.failed()  # so that the router asks the others at once
            done(response)

        sent = pool.ask(b"GET %b%b" % (target, pool.block(self._name_of(caller))), answered, patience_s)
        self.sent_total += sent
        return sent

    def _holder(self, store: str, key: bytes) -> tuple[str | None, bool]:
        """The node to ask, and whether it is the only one; None if there is none, or this node has the rows itself."""
        catalog = self._catalog
        try:
            where = (store, catalog.partition(store, key))
            if self._table is not catalog.table or self._replicas is not catalog.replicas:
                self._table, self._replicas = catalog.table, catalog.replicas
                self._holders.clear()
            if where not in self._holders:
                others = [node for node in catalog.holders(*where) if node != catalog.node]
                mine = not others or catalog.replica(*where) is not None
                self._holders[where] = _NOBODY if mine else (others[0], len(others) == 1)
            return self._holders[where]
        except StateError:
            return _NOBODY


def _decoded(key: bytes) -> bytes:
    return unquote_to_bytes(key) if b"%" in key else key
