"""Sends a question to a node that can answer it: the first holder, and the next one when that is slow or gone.

If a holder refuses the connection or can't answer, the next one is asked at once. If it is merely slow, the next one is
asked as well after a short delay (hedging), and the first answer wins. Hedging is limited to a share of all requests,
so that it doesn't double the load of an overloaded cluster. The limit doesn't apply if the slow node is suspect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import orjson
import structlog

from state.cluster.catalog import Catalog
from state.errors import StoreUnavailableError
from state.query.answers.answer import Answer
from state.query.forwarding.peers import PeerRequest, Peers, PeerUnavailableError

log = structlog.get_logger(__name__)

_HEDGE_SHARE = 0.1
_HEDGE_BURST = 20.0
_MISDIRECTED = 421


class NoHolderAnsweredError(StoreUnavailableError):
    """None of the nodes that hold a partition can answer now.

    Attributes:
        asked: how many nodes were asked; 0 if no other node holds the partition.
        answers: the answers of nodes that refused.
    """

    def __init__(self, message: str, *, asked: int = 0, answers: Sequence[Answer] = ()) -> None:
        super().__init__(message)
        self.asked = asked
        self.answers = tuple(answers)


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """One node's answer for some partitions."""

    partitions: tuple[int, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Scattered:
    """The answers for many partitions. `missing` are those that no node answered for.

    `reasons` say why, `refusals` are the answers of nodes that refused.
    """

    parts: tuple[HolderAnswer, ...]
    missing: tuple[int, ...]
    reasons: tuple[str, ...]
    refusals: tuple[Answer, ...] = ()


@dataclass(slots=True)
class _Question:
    """A question, its deadline, and the outcome of its attempts so far.

    Attributes:
        store: the store's name.
        request: makes the request for a set of partitions.
        deadline_s: the deadline, on the monotonic clock.
        reasons: why nodes that were asked did not answer.
        answers: the answers of nodes that refused.
        hints: holders that other nodes named, by partition.
    """

    store: str
    request: Callable[[Sequence[int]], PeerRequest]
    deadline_s: float
    reasons: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    hints: dict[int, list[str]] = field(default_factory=dict)

    def failed(self, error: PeerUnavailableError) -> None:
        """Notes a failed attempt."""
        self.reasons.append(str(error))
        if error.answer is not None:
            self.answers.append(error.answer)


@dataclass(slots=True)
class _Attempt:
    """A node to ask for some partitions, the nodes that are `asked` then, and whether there are others to ask."""

    node: str
    asked: frozenset[str]
    partitions: list[int] = field(default_factory=list)
    has_others: bool = False


class Router:
    """Sends questions on to other nodes. Belongs to one event loop.

    Attributes:
        forwarded_total: requests sent to other nodes.
        hedged_total: times that other nodes were asked because an earlier one was slow.
        corrected_total: times that another node corrected the holders.
    """

    def __init__(self, catalog: Catalog, peers: Peers) -> None:
        self._catalog = catalog
        self._peers = peers
        self._hedges_left = _HEDGE_BURST
        self.forwarded_total = 0
        self.hedged_total = 0
        self.corrected_total = 0

    async def forward(self, store: str, partition: int, request: PeerRequest, *, deadline_s: float) -> Answer:
        """The answer of another node that holds the partition, by `deadline_s` on the monotonic clock.

        Raises:
            NoHolderAnsweredError: none can answer in time; its message names the reasons.
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the node doesn't know the store's partitions yet.
        """
        question = _Question(store, lambda _: request, deadline_s)
        found = await self._ask_holders(question, [partition], frozenset())
        if found:
            return found[0].answer
        why = "; ".join(question.reasons) or "none is left"
        msg = f"no replica of partition {partition} of {store} can answer now: {why}"
        raise NoHolderAnsweredError(msg, asked=len(question.reasons), answers=question.answers)

    async def scatter(
        self,
        store: str,
        partitions: Iterable[int],
        request: Callable[[Sequence[int]], PeerRequest],
        *,
        deadline_s: float,
    ) -> Scattered:
        """Asks other nodes for many partitions, each partition at one of its holders. Raises as `forward` does.

        `request` makes the request for the partitions that one node is asked for together.
        """
        wanted = sorted(set(partitions))
        question = _Question(store, request, deadline_s)
        parts = await self._ask_holders(question, wanted, frozenset())
        answered = {partition for part in parts for partition in part.partitions}
        missing = tuple(number for number in wanted if number not in answered)
        return Scattered(tuple(parts), missing, tuple(question.reasons), tuple(question.answers))

    async def _ask_holders(
        self, question: _Question, partitions: Sequence[int], asked: frozenset[str]
    ) -> list[HolderAnswer]:
        """Asks for each partition at its best holder that wasn't asked yet. Partitions without one are left out."""
        attempts: dict[str, _Attempt] = {}
        for partition in partitions:
            known = self._catalog.holders(question.store, partition)
            hinted = [node for node in question.hints.get(partition, ()) if node not in known]
            holders = [node for node in self._peers.ordered([*known, *hinted]) if node not in asked]
            if holders:
                attempt = attempts.setdefault(holders[0], _Attempt(holders[0], asked | {holders[0]}))
                attempt.partitions.append(partition)
                attempt.has_others |= len(holders) > 1
        if len(attempts) == 1:
            return await self._ask_with_hedge(question, *attempts.values())
        found = await asyncio.gather(*(self._ask_with_hedge(question, attempt) for attempt in attempts.values()))
        return [part for parts in found for part in parts]

    async def _ask_with_hedge(self, question: _Question, attempt: _Attempt) -> list[HolderAnswer]:
        """One node's answer, or the answers of the next nodes if it is slow or can't answer."""
        request = question.request(attempt.partitions)
        first = asyncio.ensure_future(self._peers.ask(attempt.node, request, deadline_s=question.deadline_s))
        self.forwarded_total += 1
        self._hedges_left = min(_HEDGE_BURST, self._hedges_left + _HEDGE_SHARE)
        try:
            await self._wait_for(first, attempt)
            if not first.done():
                return await self._race(first, question, attempt)
            try:
                return [HolderAnswer(tuple(attempt.partitions), first.result())]
            except PeerUnavailableError as error:
                self._note_refusal(question, attempt.partitions, error)
                return await self._ask_holders(question, attempt.partitions, attempt.asked)
        finally:
            first.cancel()

    async def _wait_for(self, first: asyncio.Future[Answer], attempt: _Attempt) -> None:
        """Returns once the node has answered, or it is time to ask others as well."""
        health = self._peers.health(attempt.node)
        while not first.done():
            await asyncio.wait((first,), timeout=health.hedge_delay_s if attempt.has_others else None)
            if first.done() or health.suspect:
                return
            if self._hedges_left >= 1:
                self._hedges_left -= 1
                return

    async def _race(self, first: asyncio.Future[Answer], question: _Question, attempt: _Attempt) -> list[HolderAnswer]:
        """The first answer for all partitions: from the slow node, or from those that are asked after it."""
        self.hedged_total += 1
        second = asyncio.ensure_future(self._ask_holders(question, attempt.partitions, attempt.asked))
        try:
            await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
            if not first.done() and sum(len(part.partitions) for part in second.result()) == len(attempt.partitions):
                self._peers.health(attempt.node).failed()
                return second.result()
            try:
                return [HolderAnswer(tuple(attempt.partitions), await first)]
            except PeerUnavailableError as error:
                question.failed(error)
                return await second
        finally:
            second.cancel()

    def _note_refusal(self, question: _Question, partitions: list[int], error: PeerUnavailableError) -> None:
        """Notes a refusal; from the first one that names other holders, these are kept as hints."""
        question.failed(error)
        if error.answer is None or error.answer.status != _MISDIRECTED:
            return
        self.corrected_total += 1
        if not question.hints:
            question.hints.update(dict.fromkeys(partitions, _holders_in(error.answer)))


def _holders_in(answer: Answer) -> list[str]:
    """The holders that a 421 names."""
    try:
        names = orjson.loads(answer.body).get("holders", [])
    except (orjson.JSONDecodeError, AttributeError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
