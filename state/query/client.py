"""A small client for the nodes' HTTP interface: `StateClient("http://127.0.0.1:18101").store("rewards").get("42")`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from state.clock import Clock, SystemClock
from state.errors import InvalidArgumentError, StateError, StoreUnavailableError, UnknownStoreError
from state.query.raw_path import key_segments

Key = str | bytes
"""A row's key; text stands for its UTF-8."""

_RETRIED = frozenset({429, 502, 503, 504})
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer and where it comes from.

    Attributes:
        value: the row's JSON value; numbers with a fraction are `Decimal`. None if there is no such key.
        served_by: the node whose replica answered.
        role: `active` or `standby`.
        offset_lag: at most so many changelog records were missing from it.
    """

    value: Any
    served_by: str
    role: str
    offset_lag: int


class StateClient:
    """Asks the nodes at `addresses`, the next one when one does not answer, until `timeout_s` have passed.

    A context manager. Not thread-safe.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._addresses = [addresses] if isinstance(addresses, str) else list(addresses)
        if not self._addresses:
            raise InvalidArgumentError("a client needs the address of at least one node")
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._http = httpx2.Client(transport=transport, trust_env=False, follow_redirects=False)

    def store(self, name: str) -> StoreClient:
        """The store of that name. Whether it exists shows with the first question."""
        return StoreClient(self, name)

    def stores(self) -> list[dict[str, Any]]:
        """The stores, as `/state/stores` lists them."""
        return self._json("/state/stores")

    def lag(self) -> dict[str, Any]:
        """How far the replicas of the first node that answers are, as `/state/lag` tells."""
        return self._json("/state/lag")

    def ready(self) -> bool:
        """Whether the first node answers for all that it holds; False if it does not answer at all."""
        try:
            answer = self._http.get(f"{self._addresses[0]}/readyz", timeout=self._timeout_s)
        except httpx2.TransportError:
            return False
        return answer.status_code == 200

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, path: str) -> httpx2.Response:
        """One question: an answer with status 200 or 404.

        Raises:
            StoreUnavailableError: no node answered in time.
            UnknownStoreError: there is no such store.
            InvalidArgumentError: the question can't be answered as it is.
        """
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        reason = "no time was given"
        while True:
            for address in list(self._addresses):
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    msg = f"no node answered {path[:200]} within {self._timeout_s:.0f} s: {reason}"
                    raise StoreUnavailableError(msg)
                try:
                    answer = self._http.get(address + path, timeout=left_s)
                except httpx2.TransportError as error:
                    reason = f"{address} does not answer ({type(error).__name__})"
                    self._addresses.append(self._addresses.pop(self._addresses.index(address)))
                    continue
                if answer.status_code not in _RETRIED:
                    return _checked(answer)
                reason = _detail(answer)
            self._sleep(_PAUSE_S)

    def _json(self, path: str) -> Any:
        return parsed(self.ask(path))


class StoreClient:
    """One store's rows. Keys are text or bytes; rows come in the order of their keys' bytes."""

    def __init__(self, client: StateClient, name: str) -> None:
        self._client = client
        self._name = quote(name, safe="")

    def get(self, key: Key) -> Any:
        """The value of a key as JSON, numbers with a fraction as `Decimal`; None if there is no such key."""
        return self.read(key).value

    def read(self, key: Key) -> Reading:
        """The same, with where it comes from."""
        (segment,), key_format = key_segments(key)
        answer = self._client.ask(f"/state/keyvalue/{self._name}/{segment}?{key_format}")
        headers = answer.headers
        return Reading(
            value=parsed(answer)["value"] if answer.status_code == 200 else None,
            served_by=headers.get("storekeeper-served-by", ""),
            role=headers.get("storekeeper-role", ""),
            offset_lag=int(headers.get("storekeeper-offset-lag", 0)),
        )

    def range(self, lower: Key, upper: Key, *, page_rows: int = 1000) -> Iterator[tuple[str, Any]]:
        """Rows from `lower` to `upper`, both included, fetched page by page."""
        segments, key_format = key_segments(lower, upper)
        return self._pages(f"range/{'/'.join(segments)}?{key_format}", page_rows)

    def all(self, *, page_rows: int = 1000) -> Iterator[tuple[str, Any]]:
        """All rows, fetched page by page."""
        return self._pages("all?", page_rows)

    def _pages(self, path: str, page_rows: int) -> Iterator[tuple[str, Any]]:
        cursor = ""
        while True:
            answer = self._client.ask(f"/state/keyvalues/{self._name}/{path}&limit={page_rows}{cursor}")
            for row in parsed(answer):
                yield row["key"], row["value"]
            following = answer.headers.get("storekeeper-next-cursor")
            if following is None:
                return
            cursor = f"&cursor={following}"


def parsed(answer: httpx2.Response) -> Any:
    """The JSON of an answer, numbers with a fraction as `Decimal`."""
    return json.loads(answer.content, parse_float=Decimal)


def _checked(answer: httpx2.Response) -> httpx2.Response:
    if answer.status_code == 200 or (answer.status_code == 404 and _kind(answer) == "unknown-key"):
        return answer
    if _kind(answer) == "unknown-store":
        raise UnknownStoreError(_detail(answer))
    if 400 <= answer.status_code < 500:
        raise InvalidArgumentError(_detail(answer))
    msg = f"the node failed with status {answer.status_code}: {_detail(answer)}"
    raise StateError(msg)


def _kind(answer: httpx2.Response) -> str:
    return str(_problem(answer).get("type", "")).rpartition(":")[2]


def _detail(answer: httpx2.Response) -> str:
    return str(_problem(answer).get("detail", f"status {answer.status_code}"))


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = json.loads(answer.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
