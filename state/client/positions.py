"""What a client has seen of each store, as demands on what it will see: reads that never go back in time. No I/O."""

from __future__ import annotations

from dataclasses import replace

from state.errors import InvalidArgumentError
from state.query.freshness import Demand
from state.query.position_token import PositionToken

_WAIT_MS = 500


class SeenPositions:
    """By store, what later answers must hold. Not thread-safe: the client calls it under its lock."""

    def __init__(self, *, monotonic: bool) -> None:
        """Keeps what answers bear if `monotonic`, and what was written in any case."""
        self._monotonic = monotonic
        self._seen: dict[str, PositionToken] = {}

    def answered(self, store: str, position: str) -> None:
        """An answer about a store bears a token. One that can't be read is left out."""
        if self._monotonic and position and store:
            try:
                self.require(store, PositionToken.parse(position))
            except InvalidArgumentError:
                return

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store must hold all that the token names."""
        seen = self._seen.get(store)
        self._seen[store] = token if seen is None else seen.merged(token)

    def added_to(self, demand: Demand, store: str) -> Demand:
        """A demand, and that what was seen is in the answer. Nodes may wait a moment for a replica to get there."""
        seen = self._seen.get(store)
        if seen is None:
            return demand
        both = seen if demand.position is None else demand.position.merged(seen)
        return replace(demand, position=both, wait_ms=max(demand.wait_ms, _WAIT_MS))
