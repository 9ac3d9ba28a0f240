"""Queries to nodes as values: the path, the key whose partition it is about, and how to read the answer. No I/O.

Keys are text or bytes; times are epoch milliseconds. What no node could answer is refused with InvalidArgumentError.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote

from storekeeper.client.answers import Reply
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
from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.freshness import NO_REQUIREMENT, FreshnessRequirement, Stale
from storekeeper.protocol.keys import key_segments
from storekeeper.protocol.position_token import PositionToken

T = TypeVar("T")
R = TypeVar("R")
Key = str | bytes
"""A row's key; text stands for its UTF-8."""
Parameters = Sequence[tuple[str, object]]

NEXT_CURSOR = "storekeeper-next-cursor"


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """One query.

    Attributes:
        path: with its query string, but without the requirement.
        read: reads the value from an answer with status 200.
        store: the store that it is about; empty if none.
        key: the key whose partition answers it; None if any node may.
        body: JSON to post; None for a GET.
        missing: makes the value if there is no such key; None if that can't happen.
        requirement: how fresh the answer must be.
        timeout_s: its time limit; None takes the client's.
        address: the only node to ask; None if any may answer.
        known: the answer, where no node need be asked.
    """

    path: str
    read: Callable[[Reply], T]
    store: str = ""
    key: bytes | None = None
    body: bytes | None = None
    missing: Callable[[], T] | None = None
    requirement: FreshnessRequirement = NO_REQUIREMENT
    timeout_s: float | None = None
    address: str | None = None
    known: Reading[T] | None = None

    def path_for(self, requirement: FreshnessRequirement) -> str:
        """The path with its query string and a requirement."""
        return self._with(requirement.query())

    def following(self, cursor: str) -> Query[T]:
        """The same query for the next page."""
        return replace(self, path=self._with(f"cursor={quote(cursor, safe='')}"))

    def _with(self, parameters: str) -> str:
        return f"{self.path}{'&' if '?' in self.path else '?'}{parameters}" if parameters else self.path


def document(path: str, address: str | None = None) -> Query[Any]:
    """The JSON at a path, of one node or of any."""
    return Query(path, lambda reply: reply.json(), address=address)


def about(
    store: str,
    path: str,
    parameters: Parameters,
    read: Callable[[Reply], T],
    options: ReadOptions,
    *,
    key: Key | None = None,
) -> Query[T]:
    """A query about a store.

    `path` is below `/state/`, with `{}` in the place of the store's name. Parameters that are None are left out. With
    `key`, the key's partition answers; without one, any node may.
    """
    given = [(name, value) for name, value in parameters if value is not None]
    query_string = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given)
    return Query(
        path="/state/" + path.replace("{}", quote(store, safe=""), 1) + (f"?{query_string}" if query_string else ""),
        read=read,
        store=store,
        key=None if key is None else key_bytes(key),
        requirement=requirement_of(options),
        timeout_s=options.get("timeout_s"),
    )


def segment(key: Key, words: frozenset[str] = frozenset()) -> tuple[str, tuple[str, str]]:
    """A key as a path segment, and the parameter that says how it is written.

    It is base64url if its text would be mistaken for one of the path's words.
    """
    if key_bytes(key).decode(errors="replace") in words:
        return base64url(key), ("key_format", "base64url")
    (written,), key_format = segments(checked_key(key))
    return written, key_format


def segments(*keys: Key) -> tuple[list[str], tuple[str, str]]:
    """The same for several keys, which may be empty."""
    written, parameter = key_segments(*map(key_bytes, keys))
    name, _, value = parameter.partition("=")
    return written, (name, value)


def checked_key(key: Key) -> Key:
    """A key that has at least one byte."""
    if not key:
        raise InvalidArgumentError("a key has at least one byte")
    return key


def time_ms(at_ms: int) -> int:
    """A time that is no earlier than 1970."""
    if not isinstance(at_ms, int) or at_ms < 0:
        raise InvalidArgumentError(f"a time is epoch milliseconds, at least 0, not {at_ms!r}")
    return at_ms


def at_least_1(n: int) -> int:
    """A number of rows to ask for."""
    if n < 1:
        raise InvalidArgumentError(f"ask for at least one row, not {n}")
    return n


def key_bytes(key: Key) -> bytes:
    """A key as its bytes."""
    try:
        return key.encode() if isinstance(key, str) else key
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"the key {key[:40]!r} has half of a pair of surrogates: pass bytes") from error


def base64url(key: Key) -> str:
    """A key as base64url."""
    return base64.urlsafe_b64encode(key_bytes(key)).decode()


def page_of(kind: type[R], row: Callable[[dict[str, Any]], R]) -> Callable[[Reply], Page[R]]:
    """Reads a page whose rows, of one kind, `row` reads."""

    def read(reply: Reply) -> Page[R]:
        return Page(Listing(kind, map(row, reply.json())), reply.headers.get(NEXT_CURSOR))

    return read


def value_of(reply: Reply) -> Any:
    """Reads the value of one key."""
    return reply.json()["value"]


def key_of(row: dict[str, Any]) -> Key:
    """Reads the key of a row."""
    if row.get("key_format") == "base64url":
        return base64.urlsafe_b64decode(row["key"])
    return str(row["key"])


def row_of(row: dict[str, Any]) -> Row:
    """Reads a row of a key-value store."""
    return Row(key_of(row), row["value"])


def windowed_row_of(row: dict[str, Any]) -> WindowedRow:
    """Reads a window."""
    start_ms = int(row["window"]["start_ms"])
    # Written as `key@start`; if the key isn't text, as `base64url(key)@start`.
    key = key_of({**row, "key": row["key"].removesuffix(f"@{start_ms}")})
    return WindowedRow(key, start_ms, row["value"])


def session_row_of(row: dict[str, Any]) -> SessionRow:
    """Reads a session."""
    window = row["window"]
    return SessionRow(key_of(row), int(window["start_ms"]), int(window["end_ms"]), row["value"])


def version_row_of(row: dict[str, Any]) -> VersionRow:
    """Reads a version."""
    valid_to_ms = row.get("valid_to_ms")
    return VersionRow(
        key_of(row), row["value"], int(row["timestamp_ms"]), None if valid_to_ms is None else int(valid_to_ms)
    )


def version_of(reply: Reply) -> VersionRow | None:
    """Reads the version of one key."""
    return version_row_of(reply.json())


def ranked_rows_of(reply: Reply) -> Listing[RankedRow]:
    """Reads a list of a ranking."""
    rows = (RankedRow(int(row["rank"]), key_of(row), row["score"], row["value"]) for row in reply.json())
    return Listing(RankedRow, rows)


def rank_of(reply: Reply) -> Rank | None:
    """Reads the place of a key."""
    row = reply.json()
    return Rank(int(row["rank"]), key_of(row), row["score"], int(row["of"]))


class ReadOptions(TypedDict, total=False):
    """Arguments that every read takes.

    Attributes:
        max_staleness_ms: the answer includes all that was in the changelog that long before the query.
        max_lag: at most this many changelog records are missing from it.
        position: a token, from an answer's `position`: this answer includes all that the earlier one did.
        wait_ms: how long to wait for a replica to become as fresh; `TooStaleError` after that. 0 by default.
        stale: `ok` also lets restoring replicas answer; `no` only active ones.
        partial: leaves out partitions that can't answer now; `complete` says so.
        timeout_s: instead of the client's.
    """

    max_staleness_ms: int
    max_lag: int
    position: str
    wait_ms: int
    stale: Literal["ok", "no"]
    partial: bool
    timeout_s: float


def requirement_of(options: ReadOptions) -> FreshnessRequirement:
    """The freshness that they require, as nodes understand it.

    Raises:
        InvalidArgumentError: if one can't be met by any answer.
    """
    for name, number in options.items():
        if isinstance(number, int | float) and number < 0:
            raise InvalidArgumentError(f"{name} can't be negative")
    return FreshnessRequirement(
        max_staleness_ms=options.get("max_staleness_ms"),
        max_lag=options.get("max_lag"),
        position=PositionToken.parse(options["position"]) if "position" in options else None,
        wait_ms=options.get("wait_ms", 0),
        stale=Stale(options.get("stale", "")),
        partial_ok=options.get("partial", False),
    )
