"""One query until its answer: which node to ask when, and when to give up. It only decides; the client acts.

    step(now) ──> Ask      send this to that node, then call on_outcome
              ──> Wait     until then, or until one of the attempts has ended
              ──> Answered the answer
              ──> an error of the tree

If a node fails or refuses, the next one is asked at once. If it is slow, the next one is asked as well, and the first
answer wins. When all were asked in vain, there is a pause and then another round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from storekeeper.client.answers import (
    Failure,
    Outcome,
    Reply,
    ReplyVerdict,
    error_of,
    gave_up,
    no_answer_within,
    too_stale,
    verdict,
)
from storekeeper.client.nodes import Nodes
from storekeeper.client.queries import Query
from storekeeper.errors import InvalidArgumentError, StateError
from storekeeper.protocol.freshness import FreshnessRequirement

_NEVER_S = float("inf")
_RESTORING = "restoring"


@dataclass(frozen=True, slots=True)
class Ask:
    """Send the query to `address`, and give up on it after `timeout_s`. `path` includes the requirement.

    Until `alone_until_s` there is nothing else to do.
    """

    attempt: int
    address: str
    path: str
    timeout_s: float
    alone_until_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until `until_s`, unless an attempt ends."""

    until_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The end: an answer that no other node would improve on."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class _Attempt:
    address: str
    began_s: float
    ends_s: float


class Exchange:
    """One query until its answer. Times are seconds of one monotonic clock.

    Not thread-safe: the client calls it under its lock.
    """

    def __init__(
        self,
        query: Query[Any],
        requirement: FreshnessRequirement,
        *,
        nodes: Nodes,
        limits: ClientLimits,
        draw: Callable[[], float],
        now_s: float,
    ) -> None:
        """Begins at `now_s`. `requirement` is the query's requirement plus the client's additions."""
        self._query = query
        self._requirement = requirement
        self._nodes = nodes
        self._limits = limits
        self._draw = draw
        self._timeout_s = limits.timeout_s if query.timeout_s is None else query.timeout_s
        self._deadline_s = now_s + self._timeout_s
        # If a replica lacks what this client has seen itself, it is waited for until the deadline.
        own = (requirement.position, requirement.max_staleness_ms) == (
            query.requirement.position,
            query.requirement.max_staleness_ms,
        )
        self._stale_until_s = now_s + query.requirement.wait_ms / 1000 if own else self._deadline_s
        self._attempts: dict[int, _Attempt] = {}
        self._begun = 0
        self._rounds = -1
        self._order: list[str] = []
        self._tried: set[str] = set()
        self._hopeless: dict[str, StateError] = {}
        self._not_before_s: dict[str, float] = {}
        self._next_s = now_s
        self._begin_round(now_s)
        self._reasons: dict[str, str] = {}
        self._kinds: set[str] = set()
        self._too_stale: Reply | None = None
        self._answer: Reply | None = None

    def step(self, now_s: float) -> Ask | Wait | Answered:
        """The next action.

        Raises:
            StoreUnavailableError: no node answered in time. TooStaleError is one.
            StoreRestoringError: all nodes that answered are still restoring.
            StateError: every node fails in a way that waiting doesn't fix.
        """
        if self._answer is not None:
            return Answered(self._answer)
        self._end_slow_attempts(now_s)
        if now_s >= self._deadline_s:
            raise self._failure()
        if now_s >= self._next_s:
            full = len(self._attempts) >= self._limits.max_running
            address = None if full else self._next_address(now_s)
            if address is not None:
                return self._ask(address, now_s)
            self._end_round(now_s)
        ends_s = min((attempt.ends_s for attempt in self._attempts.values()), default=_NEVER_S)
        return Wait(min(self._next_s, ends_s, self._deadline_s))

    def on_outcome(self, attempt: int, outcome: Outcome, now_s: float) -> None:
        """Records the outcome of an attempt, even a final answer after its time-out."""
        if isinstance(outcome, Reply):
            self._replied(attempt, outcome, now_s)
        else:
            self._failed(attempt, outcome, now_s)

    def _replied(self, attempt: int, reply: Reply, now_s: float) -> None:
        sent = self._attempts.pop(attempt, None)
        reply_verdict = verdict(reply)
        if sent is not None:
            self._nodes.answered(sent.address, now_s - sent.began_s, keyed=self._query.key is not None)
        if reply_verdict is ReplyVerdict.FINAL:
            self._answer = self._answer or reply
            for other in self._attempts.values():
                if sent is not None and other.began_s < sent.began_s:
                    self._nodes.failed(other.address, now_s)
        elif sent is not None:
            self._refused(sent.address, reply, reply_verdict, now_s)

    def _failed(self, attempt: int, failure: Failure, now_s: float) -> None:
        sent = self._attempts.pop(attempt, None)
        if sent is not None:
            self._nodes.failed(sent.address, now_s)
            # An attempt cut short by the deadline is a weaker reason than the one before it.
            if now_s < self._deadline_s or sent.address not in self._reasons:
                self._reasons[sent.address] = failure.reason
            self._next_s = now_s
            if failure.hopeless is not None:
                self._hopeless[sent.address] = failure.hopeless

    def _refused(self, address: str, reply: Reply, reply_verdict: ReplyVerdict, now_s: float) -> None:
        self._reasons[address] = reply.detail
        self._kinds.add(reply.kind)
        self._next_s = now_s
        if reply_verdict is ReplyVerdict.MISDIRECTED:
            self._nodes.misdirected()
        elif reply_verdict is ReplyVerdict.TOO_STALE:
            self._too_stale = reply
        elif reply_verdict is ReplyVerdict.DEFECT:
            self._hopeless[address] = error_of(reply)
        else:
            self._not_before_s[address] = now_s + min(reply.retry_after_s, self._limits.max_pause_s)

    def _end_slow_attempts(self, now_s: float) -> None:
        for number, attempt in list(self._attempts.items()):
            if now_s >= attempt.ends_s:
                self._failed(number, Failure(no_answer_within(attempt.ends_s - attempt.began_s)), now_s)

    def _next_address(self, now_s: float) -> str | None:
        busy = {attempt.address for attempt in self._attempts.values()}
        for address in self._order:
            if address not in self._tried and address not in busy and self._not_before_s.get(address, 0.0) <= now_s:
                # Hedged requests are limited, so that they don't add to the load of a busy cluster.
                return address if not busy or self._nodes.may_hedge() else None
        return None

    def _ask(self, address: str, now_s: float) -> Ask:
        waits_s = max(0.0, min(self._requirement.wait_ms / 1000, self._stale_until_s - now_s))
        lasts_s = min(self._limits.attempt_in_round_s(self._rounds) + waits_s, self._deadline_s - now_s)
        self._begun += 1
        self._tried.add(address)
        self._attempts[self._begun] = _Attempt(address, now_s, now_s + lasts_s)
        self._next_s = now_s + waits_s + self._nodes.hedge_delay_s(keyed=self._query.key is not None)
        requirement = replace(
            self._requirement, wait_ms=round(waits_s * 1000), deadline_ms=max(1, round(lasts_s * 1000))
        )
        alone_until_s = min(self._next_s, now_s + lasts_s)
        return Ask(self._begun, address, self._query.path_for(requirement), lasts_s, alone_until_s)

    def _begin_round(self, now_s: float) -> None:
        query = self._query
        self._rounds += 1
        self._tried.clear()
        self._hopeless.clear()
        self._order = self._nodes.in_order(query.store, query.key, now_s) if query.address is None else [query.address]

    def _end_round(self, now_s: float) -> None:
        """No other node can be asked now. Once no attempt is running, pause and begin another round."""
        self._next_s = _NEVER_S
        if self._attempts:
            return
        if self._tried and self._tried <= self._hopeless.keys():
            raise next(iter(self._hopeless.values()))
        if self._too_stale is not None and now_s >= self._stale_until_s:
            raise self._failure()
        again_s = min((self._not_before_s.get(address, now_s) for address in self._order), default=now_s)
        self._next_s = max(now_s + self._limits.pause_after_s(self._rounds, self._draw()), again_s)
        self._begin_round(now_s)

    def _failure(self) -> StateError:
        if self._too_stale is not None:
            return too_stale(self._too_stale)
        return gave_up(self._query.store, self._timeout_s, self._reasons, restoring=self._kinds == {_RESTORING})


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Times of one query.

    Attributes:
        timeout_s: the time limit of a query, over all attempts.
        attempt_s: how long to wait for one node in the first round; doubled with each further round.
        max_running: the most nodes that are asked at the same time.
        pause_s: the pause after the first round in which no node could answer. It doubles with each round, up to
            `max_pause_s`; the actual pause is random, from half of it to all of it.
        max_pause_s: the longest pause, even if a node asks for a longer one with `Retry-After`.
    """

    timeout_s: float = 10.0
    attempt_s: float = 2.0
    max_running: int = 3
    pause_s: float = 0.05
    max_pause_s: float = 1.0

    def __post_init__(self) -> None:
        if min(self.timeout_s, self.attempt_s, self.pause_s, self.max_pause_s) <= 0 or self.max_running < 1:
            raise InvalidArgumentError("the times and counts of a client are greater than 0")

    def attempt_in_round_s(self, rounds: int) -> float:
        """How long to wait for one node in a round; the first round is 0."""
        return self.attempt_s * 2 ** min(rounds, 8)

    def pause_after_s(self, rounds: int, draw: float) -> float:
        """The pause after a round; `draw` is from 0 to 1."""
        longest_s = min(self.max_pause_s, self.pause_s * 2 ** min(rounds, 16))
        return longest_s * (0.5 + 0.5 * draw)
