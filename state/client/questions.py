"""Questions to nodes as values: the path, the key whose partition it is about, and how to read the answer. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import orjson

from state.client.answers import Reply
from state.client.demands import Demands, demand_of
from state.client.readings import Page, Rank, RankedRow, Row, SessionRow, WindowedRow
from state.errors import InvalidArgumentError
from state.protocol.freshness import NO_DEMAND, Demand
from state.protocol.keys import key_segments

T = TypeVar("T")
R = TypeVar("R")
Key = str | bytes
"""A row's key; text stands for its UTF-8."""
Parameters = Sequence[tuple[str, object]]

NEXT_CURSOR = "storekeeper-next-cursor"
_WINDOW_WORDS = frozenset({"all"})
_SESSION_WORDS = frozenset({"active", "ended"})


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One question.

    Attributes:
        path: with its query, but without the demand.
        read: reads the value from an answer with status 200.
        store: the store that it is about; empty if none.
        key: the key whose partition answers it; None if any node may.
        body: JSON to post; None for a GET.
        missing: makes the value if there is no such key; None if that can't happen.
        demand: how fresh the answer must be.
        timeout_s: its time limit; None takes the client's.
        address: the only node to ask; None if any may answer.
    """

    path: str
    read: Callable[[Reply], T]
    store: str = ""
    key: bytes | None = None
    body: bytes | None = None
    missing: Callable[[], T] | None = None
    demand: Demand = NO_DEMAND
    timeout_s: float | None = None
    address: str | None = None

    def path_for(self, demand: Demand) -> str:
        """The path with its query and a demand."""
        return self._with(demand.query())

    def following(self, cursor: str) -> Question[T]:
        """The same question for the next page."""
        return replace(self, path=self._with(f"cursor={quote(cursor, safe='')}"))

    def _with(self, query: str) -> str:
        return f"{self.path}{'&' if '?' in self.path else '?'}{query}" if query else self.path


@dataclass(frozen=True, slots=True)
class StoreQuestions:
    """Questions about one store. Keys are text or bytes; times are epoch milliseconds, bounds are included.

    Each raises InvalidArgumentError if no node could answer it as it is.
    """

    store: str

    def get(self, key: Key, demands: Demands) -> Question[Any]:
        """The value of one key."""
        segment, key_format = _segment(key)
        question = self._question(f"keyvalue/{{}}/{segment}", [key_format], _value, demands, key)
        return replace(question, missing=lambda: None)

    def get_many(self, keys: Sequence[Key], demands: Demands) -> Question[dict[Key, Any]]:
        """The values of many keys in the order asked, None for those that are missing."""
        asked = list(dict.fromkeys(_checked(key) for key in keys))

        def read(reply: Reply) -> dict[Key, Any]:
            found = {_key_bytes(_key(row)): row["value"] for row in reply.json()["rows"]}
            return {key: found[_key_bytes(key)] for key in asked if _key_bytes(key) in found}

        body = orjson.dumps({"keys": [_base64url(key) for key in asked], "key_format": "base64url"})
        return replace(self._question("keyvalues/{}", [], read, demands), body=body)

    def range(self, lower: Key, upper: Key, parameters: Parameters, demands: Demands) -> Question[Page[Row]]:
        """Rows from one key to another."""
        segments, key_format = key_segments(lower, upper)
        path = f"keyvalues/{{}}/range/{'/'.join(segments)}"
        return self._question(path, [_pair(key_format), *parameters], _page_of(_row), demands)

    def prefix(self, prefix: Key, parameters: Parameters, demands: Demands) -> Question[Page[Row]]:
        """Rows whose keys begin with `prefix`."""
        segment, key_format = _segment(prefix)
        return self._question(f"keyvalues/{{}}/prefix/{segment}", [key_format, *parameters], _page_of(_row), demands)

    def all(self, parameters: Parameters, demands: Demands) -> Question[Page[Row]]:
        """All rows."""
        return self._question("keyvalues/{}/all", parameters, _page_of(_row), demands)

    def count(self, demands: Demands) -> Question[int]:
        """About how many rows there are."""
        return self._question(
            "keyvalues/{}/count", [], lambda reply: int(reply.json()["approximate_num_entries"]), demands
        )

    def windows(
        self, key: Key, from_ms: int, to_ms: int, parameters: Parameters, demands: Demands
    ) -> Question[Page[WindowedRow]]:
        """A key's windows by their start."""
        segment, key_format = _segment(key, _WINDOW_WORDS)
        path = f"windowed/{{}}/{segment}/{_time(from_ms)}/{_time(to_ms)}"
        return self._question(path, [key_format, *parameters], _page_of(_windowed_row), demands, key)

    def all_windows(
        self, from_ms: int, to_ms: int, parameters: Parameters, demands: Demands
    ) -> Question[Page[WindowedRow]]:
        """Every key's windows by their start."""
        path = f"windowed/{{}}/all/{_time(from_ms)}/{_time(to_ms)}"
        return self._question(path, parameters, _page_of(_windowed_row), demands)

    def sessions(self, key: Key, parameters: Parameters, demands: Demands) -> Question[Page[SessionRow]]:
        """A key's sessions."""
        segment, key_format = _segment(key, _SESSION_WORDS)
        return self._question(
            f"sessions/{{}}/{segment}", [key_format, *parameters], _page_of(_session_row), demands, key
        )

    def active_sessions(self, parameters: Parameters, demands: Demands) -> Question[Page[SessionRow]]:
        """Sessions that a record would still extend."""
        return self._question("sessions/{}/active", parameters, _page_of(_session_row), demands)

    def ended_sessions(
        self, from_ms: int, to_ms: int, parameters: Parameters, demands: Demands
    ) -> Question[Page[SessionRow]]:
        """Sessions by their last record."""
        path = f"sessions/{{}}/ended/{_time(from_ms)}/{_time(to_ms)}"
        return self._question(path, parameters, _page_of(_session_row), demands)

    def top(self, n: int, demands: Demands) -> Question[list[RankedRow]]:
        """The `n` highest."""
        return self._question("ranked/{}/top", [("limit", _at_least_1(n))], _ranked_rows, demands)

    def scores(self, low: float, high: float, limit: int, demands: Demands) -> Question[list[RankedRow]]:
        """Rows by score, highest first."""
        path = f"ranked/{{}}/scores/{_segment(str(low))[0]}/{_segment(str(high))[0]}"
        return self._question(path, [("limit", _at_least_1(limit))], _ranked_rows, demands)

    def rank(self, key: Key, demands: Demands) -> Question[Rank | None]:
        """The place of a key."""
        segment, key_format = _segment(key)
        question: Question[Rank | None] = self._question(f"ranked/{{}}/rank/{segment}", [key_format], _rank, demands)
        return replace(question, missing=lambda: None)

    def _question(
        self,
        path: str,
        parameters: Parameters,
        read: Callable[[Reply], T],
        demands: Demands,
        key: Key | None = None,
    ) -> Question[T]:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters)
        return Question(
            path="/state/" + path.replace("{}", quote(self.store, safe=""), 1) + (f"?{query}" if query else ""),
            read=read,
            store=self.store,
            key=None if key is None else _key_bytes(key),
            demand=demand_of(demands),
            timeout_s=demands.get("timeout_s"),
        )


def document(path: str, address: str | None = None) -> Question[Any]:
    """The JSON at a path, of one node or of any."""
    return Question(path, lambda reply: reply.json(), address=address)


def optional(**parameters: object) -> Parameters:
    """The parameters that aren't None."""
    return [(name, value) for name, value in parameters.items() if value is not None]


def _segment(key: Key, words: frozenset[str] = frozenset()) -> tuple[str, tuple[str, str]]:
    """A key as a path segment; as base64url if its text would be mistaken for one of the path's words."""
    if _key_bytes(key).decode(errors="replace") in words:
        return _base64url(key), ("key_format", "base64url")
    (segment,), key_format = key_segments(_checked(key))
    return segment, _pair(key_format)


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name, value


def _checked(key: Key) -> Key:
    if not key:
        raise InvalidArgumentError("a key has at least one byte")
    return key


def _time(at_ms: int) -> int:
    if not isinstance(at_ms, int) or at_ms < 0:
        msg = f"a time is epoch milliseconds, at least 0, not {at_ms!r}"
        raise InvalidArgumentError(msg)
    return at_ms


def _at_least_1(n: int) -> int:
    if n < 1:
        msg = f"ask for at least one row, not {n}"
        raise InvalidArgumentError(msg)
    return n


def _key_bytes(key: Key) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _base64url(key: Key) -> str:
    return base64.urlsafe_b64encode(_key_bytes(key)).decode()


def _page_of(row: Callable[[dict[str, Any]], R]) -> Callable[[Reply], Page[R]]:
    def read(reply: Reply) -> Page[R]:
        return Page([row(found) for found in reply.json()], reply.headers.get(NEXT_CURSOR))

    return read


def _value(reply: Reply) -> Any:
    return reply.json()["value"]


def _key(row: dict[str, Any]) -> Key:
    if row.get("key_format") == "base64url":
        return base64.urlsafe_b64decode(row["key"])
    return str(row["key"])


def _row(row: dict[str, Any]) -> Row:
    return Row(_key(row), row["value"])


def _windowed_row(row: dict[str, Any]) -> WindowedRow:
    key, start_ms = _key(row), int(row["window"]["start_ms"])
    # Written as `key@start`; if the key isn't text, the whole is base64url.
    shown = key.removesuffix(f"@{start_ms}") if isinstance(key, str) else key.removesuffix(b"@%d" % start_ms)
    return WindowedRow(shown, start_ms, row["value"])


def _session_row(row: dict[str, Any]) -> SessionRow:
    window = row["window"]
    return SessionRow(_key(row), int(window["start_ms"]), int(window["end_ms"]), row["value"])


def _ranked_rows(reply: Reply) -> list[RankedRow]:
    return [RankedRow(int(row["rank"]), _key(row), row["score"], row["value"]) for row in reply.json()]


def _rank(reply: Reply) -> Rank | None:
    row = reply.json()
    return Rank(int(row["rank"]), _key(row), row["score"], int(row["of"]))
