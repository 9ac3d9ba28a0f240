"""The stores of `stores.py` for code that awaits. They differ in nothing else.

Keys are text or bytes, values are JSON; rows come in the order of their keys' bytes. Times are epoch milliseconds, and
bounds are included. Every method takes the demands of `Demands`, and raises the errors of `AsyncStateClient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, Unpack

from state.client.demands import Demands
from state.client.questions import Key, Question, StoreQuestions, optional
from state.client.readings import Rank, RankedRow, Reading, Row, SessionRow, WindowedRow
from state.client.rows import AsyncRows
from state.protocol.position_token import PositionToken

T = TypeVar("T")

PAGE_ROWS = 1000


class AsyncAsking(Protocol):
    """The client that a store asks with: an `AsyncStateClient`."""

    async def ask(self, question: Question[T]) -> Reading[T]:
        """The answer to a question."""
        ...

    def require(self, store: str, token: PositionToken) -> None:
        """Sets a position that later answers about a store must include."""
        ...


class AsyncRemoteStore:
    """The methods of every kind of store."""

    def __init__(self, client: AsyncAsking, name: str) -> None:
        self._client = client
        self._questions = StoreQuestions(name)

    def read_your_writes(self, topic: str, partition: int, offset: int) -> None:
        """From now on, answers include the effect of one record of a topic that the store's app reads.

        Nodes wait for the app, so a read soon after the write takes as long as the app does.
        """
        self._client.require(self._questions.store, PositionToken.of_source(topic, partition, offset))


class AsyncRemoteKeyValueStore(AsyncRemoteStore):
    """The latest value of each key."""

    async def get(self, key: Key, **demands: Unpack[Demands]) -> Reading[Any]:
        """The value of a key, None if there is no such key."""
        return await self._client.ask(self._questions.get(key, demands))

    async def get_many(self, keys: Sequence[Key], **demands: Unpack[Demands]) -> Reading[dict[Key, Any]]:
        """The values of keys in the order asked, None for those that are missing; in one request.

        Nodes take 1,000 keys at once by default. With `partial`, keys that no node can look up are left out.
        """
        if not keys:
            return Reading({})
        return await self._client.ask(self._questions.get_many(keys, demands))

    def range(
        self, lower: Key, upper: Key, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]
    ) -> AsyncRows[Row]:
        """Rows from `lower` to `upper`."""
        return AsyncRows(self._client.ask, self._questions.range(lower, upper, optional(limit=page_rows), demands))

    def reverse_range(
        self, lower: Key, upper: Key, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]
    ) -> AsyncRows[Row]:
        """Rows from `upper` down to `lower`."""
        parameters = optional(limit=page_rows, reverse="true")
        return AsyncRows(self._client.ask, self._questions.range(lower, upper, parameters, demands))

    def prefix_scan(self, prefix: Key, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]) -> AsyncRows[Row]:
        """Rows whose keys begin with `prefix`."""
        return AsyncRows(self._client.ask, self._questions.prefix(prefix, optional(limit=page_rows), demands))

    def all(self, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]) -> AsyncRows[Row]:
        """All rows."""
        return AsyncRows(self._client.ask, self._questions.all(optional(limit=page_rows), demands))

    def reverse_all(self, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]) -> AsyncRows[Row]:
        """All rows, the last key first."""
        return AsyncRows(self._client.ask, self._questions.all(optional(limit=page_rows, reverse="true"), demands))

    async def approximate_num_entries(self, **demands: Unpack[Demands]) -> Reading[int]:
        """About how many rows there are in all partitions."""
        return await self._client.ask(self._questions.count(demands))


class AsyncRemoteRankedStore(AsyncRemoteKeyValueStore):
    """A key-value store whose rows are also ordered by a score in their values, the highest first.

    Equal scores have the same rank, and the next ranks are skipped: 1, 2, 2, 4.
    """

    async def top(self, n: int = 10, **demands: Unpack[Demands]) -> Reading[list[RankedRow]]:
        """The `n` highest."""
        return await self._client.ask(self._questions.top(n, demands))

    async def rank(self, key: Key, **demands: Unpack[Demands]) -> Reading[Rank | None]:
        """The place of a key, None if there is no such key."""
        return await self._client.ask(self._questions.rank(key, demands))

    async def scores(
        self, low: float, high: float, *, limit: int = 100, **demands: Unpack[Demands]
    ) -> Reading[list[RankedRow]]:
        """Rows with a score from `low` to `high`, at most `limit`."""
        return await self._client.ask(self._questions.scores(low, high, limit, demands))


class AsyncRemoteWindowStore(AsyncRemoteStore):
    """The values of each key in windows of time."""

    def fetch(
        self, key: Key, from_ms: int, to_ms: int, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]
    ) -> AsyncRows[WindowedRow]:
        """A key's windows that begin from `from_ms` to `to_ms`, in the order of time."""
        parameters = optional(limit=page_rows)
        return AsyncRows(self._client.ask, self._questions.windows(key, from_ms, to_ms, parameters, demands))

    def fetch_all(
        self, from_ms: int, to_ms: int, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]
    ) -> AsyncRows[WindowedRow]:
        """Every key's windows that begin from `from_ms` to `to_ms`."""
        return AsyncRows(
            self._client.ask, self._questions.all_windows(from_ms, to_ms, optional(limit=page_rows), demands)
        )


class AsyncRemoteSessionStore(AsyncRemoteStore):
    """The sessions of each key: runs of records with no longer gap between them than the app allows."""

    def find_sessions(
        self,
        key: Key,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        page_rows: int = PAGE_ROWS,
        **demands: Unpack[Demands],
    ) -> AsyncRows[SessionRow]:
        """A key's sessions that overlap the time from `from_ms` to `to_ms`; None leaves that end open."""
        parameters = optional(limit=page_rows, from_ms=from_ms, to_ms=to_ms)
        return AsyncRows(self._client.ask, self._questions.sessions(key, parameters, demands))

    def active(
        self,
        at_ms: int | None = None,
        gap_ms: int | None = None,
        *,
        page_rows: int = PAGE_ROWS,
        **demands: Unpack[Demands],
    ) -> AsyncRows[SessionRow]:
        """Sessions that a record at `at_ms` would still extend; None stands for now and for the app's own gap."""
        parameters = optional(limit=page_rows, at_ms=at_ms, gap_ms=gap_ms)
        return AsyncRows(self._client.ask, self._questions.active_sessions(parameters, demands))

    def ended(
        self, from_ms: int, to_ms: int, *, page_rows: int = PAGE_ROWS, **demands: Unpack[Demands]
    ) -> AsyncRows[SessionRow]:
        """Sessions whose last record is from `from_ms` to `to_ms`."""
        parameters = optional(limit=page_rows)
        return AsyncRows(self._client.ask, self._questions.ended_sessions(from_ms, to_ms, parameters, demands))
