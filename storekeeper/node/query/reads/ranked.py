"""Ranked stores: the highest scores, a key's place, and scores in a range. Nothing here scans.

Equal scores share a place, and the next lower score counts them all: 1, 2, 2, 4. A top list merges the lists of the
partitions. A key's place is one more than the number of rows with a strictly higher score in all partitions. Its own
partition is counted in the same view as the score is read from, the others right after.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from storekeeper.errors import InvalidArgumentError, StoreUnavailableError
from storekeeper.node.query.answers.answer import UnknownKeyError
from storekeeper.node.query.answers.origins import Origin
from storekeeper.node.query.forwarding import PeerRequest
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.gather import Gathered, Gatherer, asking, unpacked
from storekeeper.node.replicas.ranked_index import Entry, Place, RankedIndex, RankedView, Score, is_score, negated
from storekeeper.node.replicas.replica import Replica

_LARGE = 1 << 63
_NUMBER = re.compile(r"-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RankedPart:
    """The part of a list that comes from some partitions.

    Attributes:
        entries: rows in order.
        cut: whether more rows follow the last one.
        before: rows before the place where the list begins.
        above: rows with a score strictly higher than the query's `highest`; 0 if the list begins at the top.
        rows: the total number of ranked rows.
    """

    entries: Sequence[Entry]
    cut: bool
    before: int
    above: int
    rows: int


@dataclass(frozen=True, slots=True)
class KeyStanding:
    """A key's score, and in its partition the rows with a higher score and all rows. `score` None: not ranked."""

    score: Score | None
    above: int
    rows: int


@dataclass(frozen=True, slots=True)
class ListQuery:
    """At most `limit` rows from a place on, down to a score. With `limit` 0 it only counts rows.

    With `highest` None it begins at the top. With `after` it begins behind that key among the rows of score `highest`.
    """

    store: str
    limit: int
    max_bytes: int
    highest: Score | None = None
    after: bytes | None = None
    lowest: Score | None = None

    @property
    def place(self) -> Place | None:
        """Where the list begins."""
        if self.highest is None:
            return None
        order = negated(self.highest)
        return (order,) if self.after is None else (order, self.after + b"\0")

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As another node reads it."""
        return asking(self, rest)

    def local(self, replicas: Sequence[Replica]) -> RankedPart:
        """Reads the indexes of this node's replicas, each in one view."""
        return self.over([_index(replica).view() for replica in replicas])

    def over(self, views: Sequence[RankedView]) -> RankedPart:
        """Reads views."""
        place = self.place
        merged = heapq.merge(*(view.behind(place, self.lowest) for view in views))
        entries, cut = _cut(merged, self, None) if self.limit else ([], False)
        before = 0 if place is None else sum(view.before(place) for view in views)
        above = 0 if self.highest is None else sum(view.above(self.highest) for view in views)
        entries = [(_any_size(order), key, value) for order, key, value in entries]
        return RankedPart(entries, cut, before, above, sum(map(len, views)))

    def decode(self, body: bytes) -> tuple[RankedPart, list[Origin]]:
        """Reads another node's answer."""
        return unpacked(body, RankedPart)


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """How a key stands in its partition."""

    store: str
    key: bytes

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As another node reads it."""
        return asking(self, rest)

    def local(self, replicas: Sequence[Replica]) -> KeyStanding:
        """Reads the index of the only replica."""
        (replica,) = replicas
        return self.over(_index(replica))

    def over(self, index: RankedIndex) -> KeyStanding:
        """Reads an index."""
        entry, view = index.find(self.key)
        if entry is None:
            return KeyStanding(None, 0, len(view))
        score = negated(entry[0])
        return KeyStanding(_any_size(score), view.above(score), len(view))

    def decode(self, body: bytes) -> tuple[KeyStanding, list[Origin]]:
        """Reads another node's answer."""
        return unpacked(body, KeyStanding)


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row with its place, 1 being the highest score."""

    rank: int
    score: Score
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class RankOfKey:
    """A key's place among `of` ranked rows."""

    rank: int
    score: Score
    of: int


async def ranked_rows(
    gatherer: Gatherer, query: ListQuery, asked: Asked
) -> tuple[Sequence[PlacedRow], bool, Gathered[RankedPart]]:
    """A list in the order of the ranking, from all partitions, and whether it was cut. Raises as a scan does."""
    gathered = await gatherer.complete(query, asked)
    rows, is_cut = placed_rows(query, gathered.contents)
    return rows, is_cut, gathered


def placed_rows(query: ListQuery, parts: Sequence[RankedPart]) -> tuple[Sequence[PlacedRow], bool]:
    """The list that its parts make, and whether it was cut."""
    # The rows behind the last one of a cut part aren't known, so the list ends there too.
    horizon = min((part.entries[-1][:2] for part in parts if part.cut), default=None)
    entries, cut = _cut(heapq.merge(*(part.entries for part in parts)), query, horizon)
    before, above = sum(part.before for part in parts), sum(part.above for part in parts)
    return _placed(entries, before, above, query.highest if query.after is not None else None), cut


async def rank_of(
    gatherer: Gatherer, store: str, key: bytes, partition: int, asked: Asked
) -> tuple[RankOfKey, Gathered[Any]]:
    """A key's place.

    Raises:
        UnknownKeyError: if the store has no such key, or none with a numeric score.
        StoreUnavailableError: if a partition is missing, or the log of one is lost: the place would be wrong.
    """
    own = await gatherer.complete(StandingQuery(store, key), asked, [partition])
    standing = own.contents[0] if own.answers else None
    if standing is None or standing.score is None:
        if own.lacking:
            msg = f"rows of partition {partition} of {store} may be missing: ask for the rank again"
            raise StoreUnavailableError(msg)
        raise unranked_key(store, key)
    rest = [number for number in gatherer.partitions(store) if number != partition]
    others = await gatherer.complete(ListQuery(store, 0, 1, highest=standing.score), asked, rest)
    rank = RankOfKey(
        1 + standing.above + sum(part.above for part in others.contents),
        standing.score,
        standing.rows + sum(part.rows for part in others.contents),
    )
    return rank, Gathered((*own.answers, *others.answers), others.missing, (), lost=(*own.lost, *others.lost))


def unranked_key(store: str, key: bytes) -> UnknownKeyError:
    """The error for a key that a ranking lacks."""
    msg = f"store {store} ranks no key {key[:200].decode(errors='replace')!r}: it is not there, or has no score"
    return UnknownKeyError(msg)


def score_in(text: str) -> Score:
    """Reads a score from text.

    Raises:
        InvalidArgumentError: if it is not a number that a row could be ranked by.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        msg = f"{text[:40]!r} is not a score: give a decimal number"
        raise InvalidArgumentError(msg)
    score = _any_size(int(text)) if match[1] is None and match[2] is None else Decimal(text)
    if not is_score(score):
        msg = f"{text[:40]!r} is too long for a score"
        raise InvalidArgumentError(msg)
    return score


def _cut(entries: Iterable[Entry], query: ListQuery, horizon: tuple[Score, bytes] | None) -> tuple[list[Entry], bool]:
    """The entries up to the limits and the horizon, at least one if there is one, and whether there may be more."""
    entries_of_page: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry[1]) + len(entry[2])
        full = len(entries_of_page) == query.limit or (entries_of_page and size > query.max_bytes)
        if full or (horizon is not None and entry[:2] > horizon):
            return entries_of_page, True
        entries_of_page.append(entry)
    return entries_of_page, horizon is not None


def _placed(entries: Sequence[Entry], before: int, above: int, highest: Score | None) -> list[PlacedRow]:
    """Adds places. `highest`: the score of the previous page's last row, which has `above` rows above it."""
    rows: list[PlacedRow] = []
    for index, (order, key, value) in enumerate(entries):
        score = negated(order)
        if rows and rows[-1].score == score:
            rank = rows[-1].rank
        elif not rows and highest is not None and score == highest:
            rank = above + 1
        else:
            rank = before + index + 1
        rows.append(PlacedRow(rank, score, key, value))
    return rows


def _index(replica: Replica) -> RankedIndex:
    if not isinstance(replica.index, RankedIndex):
        msg = f"replica {replica.replica_id} keeps no ranking: start the node again with this store's kind"
        raise StoreUnavailableError(msg)
    return replica.index


def _any_size(score: Score) -> Score:
    """The same number: MessagePack has no integers of more than 64 bits."""
    return score if isinstance(score, Decimal) or abs(score) < _LARGE else Decimal(score)
