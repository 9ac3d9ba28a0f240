"""The positions that a client has seen of each store, as requirements of later answers: monotonic reads. No I/O."""

from __future__ import annotations

from dataclasses import replace

from state.errors import InvalidArgumentError
from state.protocol.freshness import FreshnessRequirement
from state.protocol.position_token import PositionToken

_WAIT_MS = 500


class SeenPositions:
    """The position by store that later answers must include. Not thread-safe: the client calls it under its lock."""

    def __init__(self, *, monotonic: bool) -> None:
        """Keeps the positions of answers only if `monotonic`; required ones always."""
        self._monotonic = monotonic
        self._seen: dict[str, PositionToken] = {}

    def answered(self, store: str, position: str) -> None:
        """Takes the token of an answer about a store. One that can't be read is ignored."""
        if self._monotonic and position and store:
            try:
                self.require(store, PositionToken.parse(position))
            except InvalidArgumentError:
                return

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store must include everything up to the token's positions."""
        seen = self._seen.get(store)
        self._seen[store] = token if seen is None else seen.merged(token)

    def added_to(self, requirement: FreshnessRequirement, store: str) -> FreshnessRequirement:
        """The requirement plus the position seen. Nodes may wait a moment for a replica to reach it."""
        seen = self._seen.get(store)
        if seen is None:
            return requirement
        both = seen if requirement.position is None else requirement.position.merged(seen)
        return replace(requirement, position=both, wait_ms=max(requirement.wait_ms, _WAIT_MS))
