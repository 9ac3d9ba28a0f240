"""Answers to questions: values and their origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from state.client.listing import Listing

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """One answer and where it comes from.

    Attributes:
        value: what was asked for. JSON numbers with a fraction are `Decimal`; None where there is no such key.
        served_by: the node that answered.
        role: of the replica that answered: `active`, `standby` or `snapshot`; empty if several took part.
        partition: the store partition that the answer is from; None if several took part.
        offset: the replica's next changelog offset: all records before it are in the answer. None if unknown.
        offset_lag: how many changelog records were missing from it at most.
        staleness_ms: the age of the answer at most, in milliseconds. None if the node doesn't know.
        position: the token of the positions that the answer includes, for a later requirement. Empty if unknown.
        complete: whether every partition took part.
    """

    value: T
    served_by: str = ""
    role: str = ""
    partition: int | None = None
    offset: int | None = None
    offset_lag: int = 0
    staleness_ms: int | None = None
    position: str = ""
    complete: bool = True

    def of(self, value: U) -> Reading[U]:
        """Another value of the same origin."""
        return replace(self, value=value)  # type: ignore[return-value, arg-type]


class Row(NamedTuple):
    """A row, `for key, value in …`. `key` is bytes where it isn't text."""

    key: str | bytes
    value: Any


@dataclass(frozen=True, slots=True)
class WindowedRow:
    """The value of a key in the window that begins at `start_ms`, epoch milliseconds, included."""

    key: str | bytes
    start_ms: int
    value: Any


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a key: from its first record to its last, both included, epoch milliseconds."""

    key: str | bytes
    start_ms: int
    end_ms: int
    value: Any


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A row and its place: 1 is the highest score, equal scores share a rank and the next ranks are skipped."""

    rank: int
    key: str | bytes
    score: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of one key among `of` keys."""

    rank: int
    key: str | bytes
    score: Any
    of: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and the cursor of the next page; None on the last page."""

    rows: Listing[T]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class NodeLag:
    """The lag of a node's replicas.

    Attributes:
        address: of the node.
        node: its name; empty if it does not answer.
        replicas: as `/state/lag` lists them.
        error: why it does not answer; None if it does.
    """

    address: str
    node: str
    replicas: Sequence[dict[str, Any]]
    error: str | None
