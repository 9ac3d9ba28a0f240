"""A client's state across queries: the nodes, and the positions seen. No I/O; used under the client's lock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from storekeeper.client.answers import Reply, error_of, is_unknown_key, reading
from storekeeper.client.exchange import ClientLimits, Exchange
from storekeeper.client.nodes import ClusterMap, Nodes
from storekeeper.client.positions import Positions
from storekeeper.client.queries import Query, document
from storekeeper.client.readings import Reading
from storekeeper.protocol.freshness import FreshnessRequirement
from storekeeper.protocol.position_token import PositionToken

T = TypeVar("T")

MAP_PATH = "/state/cluster"
_EPOCH = "storekeeper-epoch"
_HISTORY = "history"


class ClientCore:
    """Not thread-safe. Keeps the positions of answers only if `monotonic`; required ones always."""

    def __init__(self, seeds: Sequence[str], limits: ClientLimits, *, monotonic: bool) -> None:
        """Takes the addresses of some nodes. Raises InvalidArgumentError if they can't be used."""
        self.nodes = Nodes(seeds)
        self.limits = limits
        self._monotonic = monotonic
        self._positions = Positions()
        self._random = random.Random()  # noqa: S311 - it spreads pauses, it guards nothing

    def begin(self, query: Query[Any], now_s: float) -> Exchange:
        """The exchange for a query."""
        requirement = self.added_to(query.requirement, query.store, now_s)
        return Exchange(query, requirement, nodes=self.nodes, limits=self.limits, draw=self._random.random, now_s=now_s)

    def finish(self, query: Query[T], reply: Reply, now_s: float) -> Reading[T]:
        """The answer, which has arrived by `now_s`, as a value.

        Raises:
            StateError: the error that the answer stands for, if it is one.
        """
        self.nodes.saw_epoch(reply.headers.get(_EPOCH, ""))
        if reply.status == 200:
            value = query.read(reply)
        elif query.missing is not None and is_unknown_key(reply):
            value = query.missing()
        else:
            raise error_of(reply)
        answer = reading(reply, value)
        # What a store was in the past stays as it is: it says nothing about later answers.
        if self._monotonic and query.store and answer.role != _HISTORY:
            self._positions.saw(query.store, answer.position, now_s)
        return answer

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store must include everything up to the token's positions."""
        self._positions.require(store, token)

    def added_to(self, requirement: FreshnessRequirement, store: str, now_s: float) -> FreshnessRequirement:
        """The requirement plus what `positions` adds."""
        return self._positions.added_to(requirement, store, now_s)

    def map_query(self, now_s: float) -> Query[Any] | None:
        """The query for the cluster's map if it is due, otherwise None."""
        return document(MAP_PATH) if self.nodes.take_map_due(now_s) else None

    def learn(self, members: Any, now_s: float) -> None:
        """Takes the map's JSON. An unreadable one changes nothing: any node finds a key's holder."""
        try:
            known = ClusterMap.of(members)
        except (KeyError, TypeError, ValueError, AttributeError):
            return
        self.nodes.learn(known, now_s)
