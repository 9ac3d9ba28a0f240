"""What a client's answers must include, by store: positions that it must reach, and those that it has seen. No I/O."""

from __future__ import annotations

from dataclasses import replace

from storekeeper.changelog.position import Position
from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.freshness import MAX_MS, FreshnessRequirement
from storekeeper.protocol.position_token import PositionToken

_WAIT_MS = 500
# Around a hand-over some nodes still answer from the generation before, so the newest topic alone is not enough.
_TOPICS = 2
# The clocks of two machines differ in speed by far less.
_SURELY_PASSED = 0.99


class Positions:
    """Positions only grow. Times are seconds of one monotonic clock.

    Of what was seen, the changelogs of the two newest generations count: nodes answer from no other.

    Some of what was seen can't be sent as a position: more partitions than a token may name, and answers that name
    none. It was in the changelog when it was seen. So an answer that holds all that was there then is as new.
    """

    def __init__(self) -> None:
        self._required: dict[str, PositionToken] = {}
        self._seen: dict[str, dict[str, Position]] = {}
        self._seen_at_s: dict[str, float] = {}
        self._unnamed_at_s: dict[str, float] = {}

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store must include everything up to the token's positions."""
        self._required[store] = self._required.get(store, PositionToken()).merged(token)

    def saw(self, store: str, position: str, now_s: float) -> None:
        """Takes the position of an answer that has arrived by `now_s`; empty if it names none."""
        try:
            token = PositionToken.parse(position)
        except InvalidArgumentError:
            self._unnamed_at_s[store] = now_s
            return
        self._seen_at_s[store] = now_s
        seen = self._seen.setdefault(store, {})
        for topic, offsets in token.changelog.offsets.items():
            seen[topic] = seen.pop(topic, Position()).merged(Position({topic: offsets}))
            if len(seen) > _TOPICS:
                del seen[next(iter(seen))]

    def added_to(self, requirement: FreshnessRequirement, store: str, now_s: float) -> FreshnessRequirement:
        """The requirement of a query that begins at `now_s`, with all that its answer must include.

        Nodes may wait a moment for a replica to get there.
        """
        required, seen = self._required.get(store), self._seen.get(store, {}).values()
        since_s = self._unnamed_at_s.get(store)
        if required is None and not seen and since_s is None:
            return requirement
        least = _merged(requirement.position, required)
        position = least
        for each in seen:
            position = _merged(position, PositionToken(changelog=each))
        if position is not None and not position.can_be_sent:
            position, since_s = least, _later(since_s, self._seen_at_s.get(store))
        return replace(
            requirement,
            position=position,
            max_staleness_ms=_at_most(requirement.max_staleness_ms, since_s, now_s),
            wait_ms=max(requirement.wait_ms, _WAIT_MS),
        )


def _merged(one: PositionToken | None, other: PositionToken | None) -> PositionToken | None:
    return one.merged(other) if one is not None and other is not None else one or other


def _later(one_s: float | None, other_s: float | None) -> float | None:
    return max((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)


def _at_most(staleness_ms: int | None, since_s: float | None, now_s: float) -> int | None:
    if since_s is None:
        return staleness_ms
    passed_ms = min(MAX_MS, int(max(0.0, now_s - since_s) * 1000 * _SURELY_PASSED))
    return passed_ms if staleness_ms is None else min(staleness_ms, passed_ms)
