"""Stores of a cluster, like Kafka Streams' read-only stores: one class for each kind, every answer with its origin.

Keys are text or bytes, values are JSON; rows come in the order of their keys' bytes. Times are epoch milliseconds, and
bounds are included. Every method takes `ReadOptions`, and raises the errors of `StateClient`. With `as_of`, an answer
is what there was after the last batch until then; options of freshness have no effect on it.

Each method is written once, as the query that it sends. A store of a `StateClient` returns the answer, or `Rows` to
iterate over. A store of an `AsyncStateClient` returns the same to await, or `AsyncRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

import orjson

from storekeeper.client.answers import Reply
from storekeeper.client.queries import (
    Key,
    Query,
    ReadOptions,
    about,
    at_least_1,
    base64url,
    checked_key,
    key_bytes,
    key_of,
    page_of,
    rank_of,
    ranked_rows_of,
    row_of,
    segment,
    segments,
    session_row_of,
    time_ms,
    value_of,
    version_of,
    version_row_of,
    windowed_row_of,
)
from storekeeper.client.readings import (
    Listing,
    Page,
    Rank,
    RankedRow,
    Reading,
    Row,
    SessionRow,
    VersionRow,
    WindowedRow,
)
from storekeeper.client.rows import AsyncRows, Rows
from storekeeper.protocol.position_token import PositionToken

T = TypeVar("T")
P = ParamSpec("P")
C_co = TypeVar("C_co", covariant=True)

PAGE_ROWS = 1000
_WINDOW_WORDS = frozenset({"all"})
_SESSION_WORDS = frozenset({"active", "ended"})


class Asking(Protocol):
    """A client that blocks: a `StateClient`."""

    def ask(self, query: Query[T]) -> Reading[T]:
        """The answer to a query."""
        ...


class AsyncAsking(Protocol):
    """A client that is awaited: an `AsyncStateClient`."""

    async def ask(self, query: Query[T]) -> Reading[T]:
        """The answer to a query."""
        ...


class _Asked(Protocol[P, T]):
    """A method that sends one query."""

    @overload
    def __get__(self, store: RemoteStore[Asking], kind: type) -> Callable[P, Reading[T]]: ...
    @overload
    def __get__(self, store: RemoteStore[AsyncAsking], kind: type) -> Callable[P, Coroutine[Any, Any, Reading[T]]]: ...


class _Paged(Protocol[P, T]):
    """A method that asks for page after page."""

    @overload
    def __get__(self, store: RemoteStore[Asking], kind: type) -> Callable[P, Rows[T]]: ...
    @overload
    def __get__(self, store: RemoteStore[AsyncAsking], kind: type) -> Callable[P, AsyncRows[T]]: ...


def _asked(query: Callable[Concatenate[Any, P], Query[T]]) -> _Asked[P, T]:
    """Makes a method that asks the query."""

    @wraps(query)
    def method(store: RemoteStore[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        return store.client.ask(query(store, *args, **kwargs))

    return cast("_Asked[P, T]", method)


def _paged(query: Callable[Concatenate[Any, P], Query[Page[T]]]) -> _Paged[P, T]:
    """Makes a method that asks for pages, beginning with the query."""

    @wraps(query)
    def method(store: RemoteStore[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        return store.client.rows(query(store, *args, **kwargs))

    return cast("_Paged[P, T]", method)


def _as_of(at_ms: int | None) -> tuple[str, str | None]:
    """The parameter of a time; None leaves it out."""
    # Nodes refuse eight digits, which may be a day.
    return "as_of", None if at_ms is None else f"{time_ms(at_ms):09d}"


class RemoteStore(Generic[C_co]):
    """The methods of every kind of store."""

    def __init__(self, client: C_co, name: str) -> None:
        self.client: Any = client
        self.name = name

    def read_your_writes(self, topic: str, partition: int, offset: int) -> None:
        """From now on, answers include the effect of one record of a topic that the store's app reads.

        Nodes wait for the app, so a read soon after the write takes as long as the app does.
        """
        self.client.require(self.name, PositionToken.of_source(topic, partition, offset))


class RemoteKeyValueStore(RemoteStore[C_co]):
    """The latest value of each key."""

    @_asked
    def get(self, key: Key, *, as_of: int | None = None, **options: Unpack[ReadOptions]) -> Query[Any]:
        """The value of a key, None if there is no such key."""
        written, key_format = segment(key)
        parameters = [key_format, _as_of(as_of)]
        query = about(self.name, f"keyvalue/{{}}/{written}", parameters, value_of, options, key=key)
        return replace(query, missing=lambda: None)

    @_asked
    def get_many(self, keys: Sequence[Key], **options: Unpack[ReadOptions]) -> Query[dict[Key, Any]]:
        """The values of keys in the order asked, None for those that are missing; in one request.

        Nodes take 1,000 keys at once by default. With `partial`, keys that no node can look up are left out.
        """
        asked = list(dict.fromkeys(checked_key(key) for key in keys))

        def read(reply: Reply) -> dict[Key, Any]:
            values = {key_bytes(key_of(row)): row["value"] for row in reply.json()["rows"]}
            return {key: values[key_bytes(key)] for key in asked if key_bytes(key) in values}

        body = orjson.dumps({"keys": [base64url(key) for key in asked], "key_format": "base64url"})
        known: Reading[dict[Key, Any]] | None = None if asked else Reading({})
        return replace(about(self.name, "keyvalues/{}", [], read, options), body=body, known=known)

    @_paged
    def range(
        self,
        lower: Key,
        upper: Key,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[Row]]:
        """Rows from `lower` to `upper`."""
        written, key_format = segments(lower, upper)
        parameters = [key_format, ("limit", page_rows), _as_of(as_of)]
        return about(self.name, f"keyvalues/{{}}/range/{'/'.join(written)}", parameters, page_of(Row, row_of), options)

    @_paged
    def reverse_range(
        self,
        lower: Key,
        upper: Key,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[Row]]:
        """Rows from `upper` down to `lower`."""
        written, key_format = segments(lower, upper)
        parameters = [key_format, ("limit", page_rows), _REVERSE, _as_of(as_of)]
        return about(self.name, f"keyvalues/{{}}/range/{'/'.join(written)}", parameters, page_of(Row, row_of), options)

    @_paged
    def prefix_scan(
        self, prefix: Key, *, as_of: int | None = None, page_rows: int = PAGE_ROWS, **options: Unpack[ReadOptions]
    ) -> Query[Page[Row]]:
        """Rows whose keys begin with `prefix`."""
        written, key_format = segment(prefix)
        parameters = [key_format, ("limit", page_rows), _as_of(as_of)]
        return about(self.name, f"keyvalues/{{}}/prefix/{written}", parameters, page_of(Row, row_of), options)

    @_paged
    def all(
        self, *, as_of: int | None = None, page_rows: int = PAGE_ROWS, **options: Unpack[ReadOptions]
    ) -> Query[Page[Row]]:
        """All rows."""
        parameters = [("limit", page_rows), _as_of(as_of)]
        return about(self.name, "keyvalues/{}/all", parameters, page_of(Row, row_of), options)

    @_paged
    def reverse_all(
        self, *, as_of: int | None = None, page_rows: int = PAGE_ROWS, **options: Unpack[ReadOptions]
    ) -> Query[Page[Row]]:
        """All rows, the last key first."""
        parameters = [("limit", page_rows), _REVERSE, _as_of(as_of)]
        return about(self.name, "keyvalues/{}/all", parameters, page_of(Row, row_of), options)


class RemoteRankedStore(RemoteKeyValueStore[C_co]):
    """A key-value store whose rows are also ordered by a score in their values, the highest first.

    Equal scores have the same rank, and the next ranks are skipped: 1, 2, 2, 4.
    """

    @_asked
    def top(
        self, n: int = 10, *, as_of: int | None = None, **options: Unpack[ReadOptions]
    ) -> Query[Listing[RankedRow]]:
        """The `n` highest."""
        parameters = [("limit", at_least_1(n)), _as_of(as_of)]
        return about(self.name, "ranked/{}/top", parameters, ranked_rows_of, options)

    @_asked
    def rank(self, key: Key, *, as_of: int | None = None, **options: Unpack[ReadOptions]) -> Query[Rank | None]:
        """The place of a key, None if there is no such key."""
        written, key_format = segment(key)
        query = about(self.name, f"ranked/{{}}/rank/{written}", [key_format, _as_of(as_of)], rank_of, options)
        return replace(query, missing=lambda: None)

    @_asked
    def scores(
        self, low: float, high: float, *, as_of: int | None = None, limit: int = 100, **options: Unpack[ReadOptions]
    ) -> Query[Listing[RankedRow]]:
        """Rows with a score from `low` to `high`, at most `limit`."""
        path = f"ranked/{{}}/scores/{segment(str(low))[0]}/{segment(str(high))[0]}"
        parameters = [("limit", at_least_1(limit)), _as_of(as_of)]
        return about(self.name, path, parameters, ranked_rows_of, options)


class RemoteWindowStore(RemoteStore[C_co]):
    """The values of each key in windows of time."""

    @_paged
    def fetch(
        self,
        key: Key,
        from_ms: int,
        to_ms: int,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[WindowedRow]]:
        """A key's windows that begin from `from_ms` to `to_ms`, in the order of time."""
        written, key_format = segment(key, _WINDOW_WORDS)
        path = f"windowed/{{}}/{written}/{time_ms(from_ms)}/{time_ms(to_ms)}"
        parameters = [key_format, ("limit", page_rows), _as_of(as_of)]
        return about(self.name, path, parameters, page_of(WindowedRow, windowed_row_of), options, key=key)

    @_paged
    def fetch_all(
        self,
        from_ms: int,
        to_ms: int,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[WindowedRow]]:
        """Every key's windows that begin from `from_ms` to `to_ms`."""
        path = f"windowed/{{}}/all/{time_ms(from_ms)}/{time_ms(to_ms)}"
        parameters = [("limit", page_rows), _as_of(as_of)]
        return about(self.name, path, parameters, page_of(WindowedRow, windowed_row_of), options)


class RemoteSessionStore(RemoteStore[C_co]):
    """The sessions of each key: runs of records with no longer gap between them than the app allows."""

    @_paged
    def find_sessions(
        self,
        key: Key,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[SessionRow]]:
        """A key's sessions that overlap the time from `from_ms` to `to_ms`; None leaves that end open."""
        written, key_format = segment(key, _SESSION_WORDS)
        parameters = [key_format, ("limit", page_rows), ("from_ms", from_ms), ("to_ms", to_ms), _as_of(as_of)]
        return about(
            self.name, f"sessions/{{}}/{written}", parameters, page_of(SessionRow, session_row_of), options, key=key
        )

    @_paged
    def active(
        self,
        at_ms: int,
        gap_ms: int,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[SessionRow]]:
        """Sessions that a record at `at_ms` would still extend, by an inactivity gap of `gap_ms`: that of the app."""
        parameters = [("limit", page_rows), ("at_ms", at_ms), ("gap_ms", gap_ms), _as_of(as_of)]
        return about(self.name, "sessions/{}/active", parameters, page_of(SessionRow, session_row_of), options)

    @_paged
    def ended(
        self,
        from_ms: int,
        to_ms: int,
        *,
        as_of: int | None = None,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[SessionRow]]:
        """Sessions whose last record is from `from_ms` to `to_ms`."""
        path = f"sessions/{{}}/ended/{time_ms(from_ms)}/{time_ms(to_ms)}"
        parameters = [("limit", page_rows), _as_of(as_of)]
        return about(self.name, path, parameters, page_of(SessionRow, session_row_of), options)


class RemoteVersionedStore(RemoteStore[C_co]):
    """The values that each key had, as far back as the store's history goes."""

    @_asked
    def get(self, key: Key, as_of: int | None = None, **options: Unpack[ReadOptions]) -> Query[VersionRow | None]:
        """The version of a key that was valid at `as_of`, the newest by default; None if it had no value then."""
        written, key_format = segment(key)
        query = about(self.name, f"keyvalue/{{}}/{written}", [key_format, _as_of(as_of)], version_of, options, key=key)
        return replace(query, missing=lambda: None)

    @_paged
    def history(
        self,
        key: Key,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        page_rows: int = PAGE_ROWS,
        **options: Unpack[ReadOptions],
    ) -> Query[Page[VersionRow]]:
        """The versions of a key that were valid at some time from `from_ms` to `to_ms`, the newest first.

        None leaves that end open.
        """
        written, key_format = segment(key)
        parameters = [key_format, ("limit", page_rows), ("from_ms", from_ms), ("to_ms", to_ms)]
        return about(
            self.name, f"versions/{{}}/{written}", parameters, page_of(VersionRow, version_row_of), options, key=key
        )


class Stores:
    """The stores of a client. The first query to a store fails if no store has its name."""

    def key_value(self, name: str) -> RemoteKeyValueStore[Self]:
        """A key-value store."""
        return RemoteKeyValueStore(self, name)

    def global_store(self, name: str) -> RemoteKeyValueStore[Self]:
        """A store with all partitions on every node."""
        return RemoteKeyValueStore(self, name)

    def ranked(self, name: str) -> RemoteRankedStore[Self]:
        """A key-value store that is ranked by a score."""
        return RemoteRankedStore(self, name)

    def window(self, name: str) -> RemoteWindowStore[Self]:
        """A window store."""
        return RemoteWindowStore(self, name)

    def session(self, name: str) -> RemoteSessionStore[Self]:
        """A session store."""
        return RemoteSessionStore(self, name)

    def versioned(self, name: str) -> RemoteVersionedStore[Self]:
        """A versioned store."""
        return RemoteVersionedStore(self, name)


_REVERSE = ("reverse", "true")
