"""One query to many partitions: answered by this node for those that it holds, by other holders for the rest.

Every part of an answer carries its origins, so that the whole answer can report its freshness and the partitions that
are missing.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from storekeeper.clock import Clock
from storekeeper.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    SerializationError,
    StoreRestoringError,
    StoreUnavailableError,
)
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import Answer, TooManyScansError
from storekeeper.node.query.answers.origins import Origin, origin_headers
from storekeeper.node.query.forwarding import AT_CAPACITY, PeerRequest, Router
from storekeeper.node.query.reads.cooperative_scheduler import CooperativeScheduler, Steps
from storekeeper.node.query.reads.freshness_gate import Asked, FreshnessGate
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.freshness import Freshest, FreshnessRequirement, TooStaleError, freshest
from storekeeper.protocol.keys import decode_base64url
from storekeeper.protocol.replica_freshness import ReplicaFreshness

log = structlog.get_logger(__name__)

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class PartitionQuery(Protocol[_T_co]):
    """A query about partitions of one store, the same for every node.

    Between nodes, queries and answers are MessagePack.
    """

    @property
    def store(self) -> str:
        """The store."""
        ...

    def request(self, partitions: Sequence[int], rest: str) -> PeerRequest:
        """The request that asks another node for some partitions; `rest` is the end of its query string."""
        ...

    def local(self, replicas: Sequence[Replica]) -> _T_co | Steps[_T_co]:
        """The answer from replicas of this node, in steps if it may take long.

        Raises InvalidStateStoreError if one of them can't answer.
        """
        ...

    def decode(self, body: bytes) -> tuple[_T_co, list[Origin]]:
        """Reads another node's answer. Any error says that it can't be read."""
        ...


@dataclass(frozen=True, slots=True)
class NodeAnswer(Generic[_T]):
    """One node's answer for some partitions."""

    partitions: tuple[int, ...]
    content: _T
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Gathered(Generic[_T]):
    """All answers.

    Attributes:
        answers: the answers.
        missing: partitions that no node answered for.
        reasons: why not, as far as it is known.
        freshest: the freshest of the replicas that were not fresh enough; None if none is known.
        lost: partitions whose answer may lack rows, as their log is lost.
    """

    answers: tuple[NodeAnswer[_T], ...]
    missing: tuple[int, ...]
    reasons: tuple[str, ...]
    freshest: Freshest | None = None
    lost: tuple[int, ...] = ()

    @property
    def lacking(self) -> tuple[int, ...]:
        """Partitions of which rows may be missing."""
        return tuple(sorted({*self.missing, *self.lost}))

    @property
    def origins(self) -> list[Origin]:
        """Where all of it comes from."""
        return [origin for answer in self.answers for origin in answer.origins]

    @property
    def contents(self) -> list[_T]:
        """What each node answered."""
        return [answer.content for answer in self.answers]


class Gatherer:
    """Asks this node's replicas and other nodes. Belongs to one event loop.

    `max_reads` bounds the requests that read many rows at a time, `longest_s` the time of each.

    Attributes:
        scheduler: for work that reads or writes many rows.
    """

    def __init__(
        self, catalog: Catalog, router: Router, gate: FreshnessGate, clock: Clock, *, max_reads: int, longest_s: float
    ) -> None:
        self._catalog = catalog
        self._router = router
        self._gate = gate
        self._clock = clock
        self._free_reads = max_reads
        self.scheduler = CooperativeScheduler()
        self._longest_s = longest_s

    def asked(self, requirement: FreshnessRequirement) -> Asked:
        """A request that arrives now."""
        now_s = self._clock.monotonic_s()
        return Asked(requirement, now_s, requirement.deadline_s(now_s, self._longest_s))

    def partitions(self, store: str) -> range:
        """The partitions of a store. Raises UnknownStoreError, and StoreRestoringError while they aren't known."""
        return range(self._catalog.partitions(store))

    def check_free(self) -> None:
        """Checks that this node can read many rows now. Call it first, so that other nodes don't read in vain.

        Raises:
            TooManyScansError: as many such reads as allowed are under way.
        """
        if not self._free_reads:
            raise TooManyScansError("this node answers as many scans as it may: ask again in a moment")

    async def gather(
        self, query: PartitionQuery[_T], asked: Asked, partitions: Iterable[int] | None = None
    ) -> Gathered[_T]:
        """Asks all partitions of the store, or some.

        Raises:
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the node doesn't know the store's partitions yet.
            TooManyScansError: if this node has too many such reads under way.
        """
        asked_for = self.partitions(query.store) if partitions is None else partitions
        left = sorted(set(asked_for))
        mine = [number for number in left if self._answers_best(query.store, number, asked)]
        others = [number for number in left if number not in mine]
        here, remote = await asyncio.gather(self._here(query, mine, asked), self._remote(query, others, asked))
        answers, rounds = [*here, *remote.answers], [remote]
        if again := [number for number in _missing(left, answers) if number in mine]:
            rounds.append(await self._remote(query, again, asked))
            answers += rounds[-1].answers
        if left_over := [number for number in _missing(left, answers) if number not in mine]:
            answers += await self._here(query, left_over, asked)
        missing = _missing(left, answers)
        reasons = tuple(reason for round_ in rounds for reason in round_.reasons)
        known = None
        if missing and asked.requirement.asks_freshness:
            known = freshest([self._freshest(query.store, missing, asked), *(round_.freshest for round_ in rounds)])
        lost = tuple(origin.partition for answer in answers for origin in answer.origins if origin.lost is not None)
        return Gathered(tuple(answers), tuple(missing), reasons, known, lost)

    async def complete(
        self, query: PartitionQuery[_T], asked: Asked, partitions: Iterable[int] | None = None
    ) -> Gathered[_T]:
        """The same, with all rows unless the request says `partial=ok`. Raises as `gather` and `complete`."""
        return complete(query.store, await self.gather(query, asked, partitions), asked)

    def headers(self, gathered: Gathered[Any]) -> dict[str, str]:
        """The headers that say where an answer comes from."""
        return origin_headers(self._catalog.node, gathered.origins, gathered.lacking)

    async def local(self, query: PartitionQuery[_T], asked: Asked, partitions: Iterable[int]) -> NodeAnswer[_T]:
        """The answer from this node's replicas alone, for another node that asks.

        Raises:
            StoreMigratedError: if this node doesn't hold one of the partitions.
            StoreRestoringError: if one has not caught up.
            TooStaleError: if one doesn't meet the requirement within its wait.
            TooManyScansError: if this node has too many such reads under way.
        """
        replicas = [self._held(query.store, number) for number in sorted(set(partitions))]
        admitted = await self._admitted(replicas, asked, share=1.0)
        for replica, fresh in zip(replicas, admitted, strict=True):
            if not fresh:
                known = asked.refused(self._catalog.node, replica)
                msg = f"{replica.replica_id} on node {self._catalog.node} is not as fresh as was required"
                raise TooStaleError(msg, known)
        return await self._read(query, replicas, asked)

    async def _here(self, query: PartitionQuery[_T], partitions: Sequence[int], asked: Asked) -> list[NodeAnswer[_T]]:
        held = [self._serving(query.store, number) for number in partitions]
        replicas = [replica for replica in held if replica is not None]
        # Another node may be fresher, so some of the wait is left to it.
        admitted = await self._admitted(replicas, asked, share=0.5)
        ready = [replica for replica, fresh in zip(replicas, admitted, strict=True) if fresh]
        if not ready:
            return []
        try:
            return [await self._read(query, ready, asked)]
        except InvalidStateStoreError as error:
            # Closed or damaged during the query: another replica may answer.
            log.warning("local_read_failed", store=query.store, error=str(error))
            return []

    async def _admitted(self, replicas: Sequence[Replica], asked: Asked, *, share: float) -> Sequence[bool]:
        if not asked.requirement.asks_freshness:
            return [True] * len(replicas)
        return await asyncio.gather(*(self._gate.admits(replica, asked, share=share) for replica in replicas))

    async def _read(self, query: PartitionQuery[_T], replicas: Sequence[Replica], asked: Asked) -> NodeAnswer[_T]:
        fresh: list[ReplicaFreshness] = [replica.freshness(asked.arrived_s) for replica in replicas]
        own = await self._local(query, replicas)
        if not all(replica.serving for replica in replicas):
            msg = f"a replica of {query.store} on node {self._catalog.node} was closed meanwhile"
            raise StoreUnavailableError(msg)
        origins = [Origin.of(self._catalog.node, *pair) for pair in zip(replicas, fresh, strict=True)]
        return NodeAnswer(tuple(replica.replica_id.partition for replica in replicas), own, tuple(origins))

    async def _local(self, query: PartitionQuery[_T], replicas: Sequence[Replica]) -> _T:
        part = query.local(replicas)
        if not isinstance(part, Generator):
            return part
        self.check_free()
        self._free_reads -= 1
        try:
            return await self.scheduler.finish(part)
        finally:
            self._free_reads += 1

    async def _remote(self, query: PartitionQuery[_T], partitions: Sequence[int], asked: Asked) -> Gathered[_T]:
        if not partitions:
            return Gathered((), (), ())
        requirement = asked.sent_on(self._clock.monotonic_s())
        replies = await self._router.scatter(
            query.store,
            partitions,
            lambda numbers: query.request(
                numbers,
                f"partitions={','.join(map(str, numbers))}&of={len(self.partitions(query.store))}&{requirement}",
            ),
            deadline_s=asked.deadline_s,
        )
        answers: list[NodeAnswer[_T]] = []
        reasons = list(replies.reasons)
        for part in replies.parts:
            try:
                decoded, origins = _decoded(query, part.answer)
            except SerializationError as error:
                log.warning("peer_answer_unreadable", store=query.store, error=str(error))
                reasons.append(str(error))
            else:
                answers.append(NodeAnswer(part.partitions, decoded, tuple(origins)))
        known = freshest(Freshest.in_refusal(refusal.body) for refusal in replies.refusals)
        return Gathered(tuple(answers), replies.missing, tuple(reasons), known)

    def _serving(self, store: str, partition: int) -> Replica | None:
        replica = self._catalog.replica(store, partition)
        return replica if replica is not None and replica.serving else None

    def _answers_best(self, store: str, partition: int, asked: Asked) -> bool:
        replica = self._serving(store, partition)
        return replica is not None and self._catalog.answers_best(replica, asked.arrived_s)

    def _freshest(self, store: str, partitions: Iterable[int], asked: Asked) -> Freshest | None:
        """This node's own freshest replica of some partitions."""
        held = [self._serving(store, number) for number in partitions]
        return freshest(asked.refused(self._catalog.node, replica) for replica in held if replica is not None)

    def _held(self, store: str, partition: int) -> Replica:
        replica = self._catalog.replica(store, partition)
        if replica is None:
            raise self._catalog.not_held(store, partition)
        if not replica.serving:
            msg = f"partition {partition} of {store} has not caught up on node {self._catalog.node}"
            raise StoreRestoringError(msg)
        return replica


def complete(store: str, gathered: Gathered[_T], asked: Asked) -> Gathered[_T]:
    """Returns the answer if it lacks no rows, or with `partial=ok`.

    Raises:
        TooStaleError: if partitions are missing because no replica is as fresh as required.
        TooManyScansError: if partitions are missing because their nodes are too busy.
        StoreUnavailableError: if partitions are missing for another reason, or the log of one is lost.
    """
    if not gathered.lacking or asked.requirement.partial_ok:
        return gathered
    if not gathered.missing:
        raise _lost(store, gathered)
    missing = ", ".join(map(str, gathered.missing))
    why = f" ({'; '.join(gathered.reasons)[:400]})" if gathered.reasons else ""
    what = "as fresh as was required " if gathered.freshest is not None else ""
    msg = f"no replica {what}of partition {missing} of {store} can answer now: ask again, or with partial=ok{why}"
    if gathered.freshest is not None:
        raise TooStaleError(msg, gathered.freshest)
    if gathered.reasons and all(AT_CAPACITY in reason for reason in gathered.reasons):
        raise TooManyScansError(msg)
    raise StoreUnavailableError(msg)


def _lost(store: str, gathered: Gathered[Any]) -> StoreUnavailableError:
    numbers = ", ".join(map(str, gathered.lost))
    why = next((f" ({origin.lost})" for origin in gathered.origins if origin.lost is not None), "")
    msg = f"rows of partition {numbers} of {store} may be missing: ask with partial=ok for those that are left{why}"
    return StoreUnavailableError(msg)


def packed(content: object, origins: Sequence[Origin]) -> bytes:
    """An answer for another node."""
    return msgspec.msgpack.encode((content, origins))


def unpacked(body: bytes, kind: type[_T]) -> tuple[_T, list[Origin]]:
    """Reads what `packed` wrote."""
    return msgspec.msgpack.decode(body, type=tuple[kind, list[Origin]])  # type: ignore[valid-type]


def _decoded(query: PartitionQuery[_T], answer: Answer) -> tuple[_T, list[Origin]]:
    if answer.status != 200:
        msg = f"another node answered with status {answer.status}"
        raise SerializationError(msg)
    try:
        return query.decode(answer.body)
    except Exception as error:
        raise SerializationError("another node's answer can't be read: let all nodes have one version") from error


def asking(query: PartitionQuery[Any], rest: str) -> PeerRequest:
    """The request that has a query in its query string; `asked_query` reads it."""
    text = base64.urlsafe_b64encode(msgspec.msgpack.encode(query)).decode()
    return PeerRequest(f"/internal/{type(query).__name__}/{query.store}?query={text}&{rest}")


def asked_query(kind: type[_T], text: str) -> _T:
    """A query from another node.

    Raises:
        InvalidArgumentError: it can't be read.
    """
    try:
        return msgspec.msgpack.decode(decode_base64url(text, "the query"), type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidArgumentError("the query can't be read: let all nodes have one version") from error


def _missing(partitions: Iterable[int], answers: Sequence[NodeAnswer[_T]]) -> list[int]:
    answered = {number for answer in answers for number in answer.partitions}
    return [number for number in partitions if number not in answered]
