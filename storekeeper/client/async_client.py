"""The client for programs that await: `await AsyncStateClient(address).key_value("rewards").get("42")`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from storekeeper.client.answers import Failure, Reply, failure_of
from storekeeper.client.core import MAP_PATH, ClientCore
from storekeeper.client.credentials import Credentials
from storekeeper.client.exchange import Answered, Ask, ClientLimits, Exchange
from storekeeper.client.queries import Query, document
from storekeeper.client.readings import NodeLag, Page, Reading
from storekeeper.client.rows import AsyncRows
from storekeeper.client.stores import Stores
from storekeeper.clock import Clock, SystemClock
from storekeeper.errors import StateError
from storekeeper.protocol.cancelled_handshakes import handshake_extensions
from storekeeper.protocol.position_token import PositionToken

_CONNECTIONS = 256
_IDLE = 64
_IDLE_S = 30.0


def http_of(credentials: Credentials, transport: httpx2.AsyncBaseTransport | None) -> httpx2.AsyncClient:
    """A client with these credentials; it uses no proxy and follows no redirects.

    Raises:
        ConfigurationError: the credentials can't be read.
    """
    credentials.headers()
    return httpx2.AsyncClient(
        transport=transport,
        verify=credentials.ssl_context(),
        trust_env=False,
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE, keepalive_expiry=_IDLE_S),
    )


def request_of(http: httpx2.AsyncClient, ask: Ask, body: bytes | None, headers: Mapping[str, str]) -> httpx2.Request:
    """The request of one attempt."""
    more = {} if body is None else {"content-type": "application/json"}
    return http.build_request(
        "GET" if body is None else "POST",
        ask.address + ask.path,
        content=body,
        headers={"accept": "application/json", **headers, **more},
        timeout=ask.timeout_s,
        extensions=handshake_extensions(ask.address),
    )


def reply_of(response: httpx2.Response) -> Reply:
    """The answer, from a response that was read completely."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


T = TypeVar("T")

_Running = dict[asyncio.Task[Reply | Failure], int]


class AsyncStateClient(Stores):
    """`StateClient` for one event loop: the same queries, behaviour and errors. An async context manager."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        limits: ClientLimits | None = None,
        monotonic: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Takes the address of one node or of several, `http://host:port` or `https://host:port`.

        Raises:
            InvalidArgumentError: if an address can't be used.
            ConfigurationError: if the credentials can't be read.
        """
        seeds = [addresses] if isinstance(addresses, str) else list(addresses)
        self._core = ClientCore(seeds, limits or ClientLimits(), monotonic=monotonic)
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._credentials = credentials or Credentials()
        self._http = http_of(self._credentials, transport)
        self._background: set[asyncio.Task[None]] = set()

    async def stores(self) -> list[dict[str, Any]]:
        """The stores, as one node lists them."""
        listed: list[dict[str, Any]] = (await self.ask(document("/state/stores"))).value
        return listed

    async def cluster(self) -> dict[str, Any]:
        """The nodes and their partitions, as one of them sees it."""
        members: dict[str, Any] = (await self.ask(document(MAP_PATH))).value
        self._core.learn(members, self._now_s())
        return members

    async def lag(self) -> list[NodeLag]:
        """The lag of each node's replicas. A node that does not answer is listed with the reason."""
        with contextlib.suppress(StateError):  # then only of the configured nodes
            await self.cluster()
        return await asyncio.gather(*(self._lag_of(address) for address in self._core.nodes.addresses))

    async def ask(self, query: Query[T]) -> Reading[T]:
        """The answer to a query; the stores' methods make them. Raises as `StateClient` says."""
        if query.known is not None:
            return query.known
        reading = await self._answer(query)
        self._refresh_map()
        return reading

    def rows(self, first: Query[Page[T]]) -> AsyncRows[T]:
        """The rows of a page and of all that follow it."""
        return AsyncRows(self.ask, first)

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store include everything up to the token's positions."""
        self._core.require(store, token)

    async def close(self) -> None:
        """Closes the connections."""
        await _cancelled(self._background)
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _answer(self, query: Query[T]) -> Reading[T]:
        exchange = self._core.begin(query, self._now_s())
        running: _Running = {}
        try:
            while True:
                step = exchange.step(self._now_s())
                if isinstance(step, Answered):
                    return self._core.finish(query, step.reply, self._now_s())
                if isinstance(step, Ask):
                    running[asyncio.create_task(self._send(step, query.body))] = step.attempt
                else:
                    await self._await(exchange, running, step.until_s)
        finally:
            await _cancelled(running)

    async def _await(self, exchange: Exchange, running: _Running, until_s: float) -> None:
        left_s = max(0.0, until_s - self._now_s())
        if not running:
            await self._sleep(left_s)
            return
        done, _ = await asyncio.wait(running, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            exchange.on_outcome(running.pop(task), task.result(), self._now_s())

    async def _send(self, ask: Ask, body: bytes | None) -> Reply | Failure:
        try:
            request = request_of(self._http, ask, body, self._credentials.headers())
            async with asyncio.timeout(ask.timeout_s):
                response = await self._http.send(request)
            return reply_of(response)
        except (httpx2.HTTPError, httpx2.StreamError, StateError, RuntimeError, OSError) as error:
            return failure_of(error, ask.timeout_s)

    def _refresh_map(self) -> None:
        query = self._core.map_query(self._now_s())
        if query is not None:
            task = asyncio.create_task(self._fetch_map(query))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _fetch_map(self, query: Query[Any]) -> None:
        with contextlib.suppress(StateError):  # it is fetched again soon; until then any node finds a key's holder
            self._core.learn((await self._answer(query)).value, self._now_s())

    async def _lag_of(self, address: str) -> NodeLag:
        try:
            lag = (await self.ask(document("/state/lag", address))).value
        except StateError as error:
            return NodeLag(address, "", [], str(error))
        return NodeLag(address, lag["node"], lag["replicas"], None)

    def _now_s(self) -> float:
        return self._clock.monotonic_s()


async def _cancelled(tasks: Any) -> None:
    """Cancels tasks and waits for their end, so that none outlives its query."""
    for task in list(tasks):
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
