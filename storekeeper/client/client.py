"""The client for programs that block: `StateClient("http://127.0.0.1:18101").key_value("rewards").get("42").value`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Self, TypeVar

from storekeeper.client.answers import Failure, Outcome
from storekeeper.client.connections import NodeConnections, Sent
from storekeeper.client.core import MAP_PATH, ClientCore
from storekeeper.client.credentials import Credentials
from storekeeper.client.exchange import Answered, Ask, ClientLimits, Exchange
from storekeeper.client.queries import Query, document
from storekeeper.client.readings import NodeLag, Page, Reading
from storekeeper.client.rows import Rows
from storekeeper.client.stores import Stores
from storekeeper.clock import Clock, SystemClock
from storekeeper.errors import StateError
from storekeeper.protocol.position_token import PositionToken

T = TypeVar("T")

_THREADS = 64
_Running = dict[Future[Outcome], int]


class StateClient(Stores):
    """Asks the nodes of a cluster. It is given the addresses of some and finds the others itself.

    A query goes to the node that holds the key. If that node fails, refuses or is slow, another one is asked, until
    an answer arrives or `limits.timeout_s` have passed. So the failure of a single node is not visible.

    With `monotonic`, no answer is older than an earlier one from the same store, whichever nodes answered; nodes that
    lag behind are waited for. Off by default, as waiting costs availability.

    A context manager. Thread-safe. Every query raises

    - StoreUnavailableError: no node answered in time. It is retriable; so is its kind TooStaleError, with the freshest
      replica, when none is as fresh as required.
    - StoreRestoringError: all nodes that hold it are still restoring.
    - UnknownStoreError, InvalidArgumentError: the query can't be answered as it is.
    - AccessDeniedError: the credentials don't suffice.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        limits: ClientLimits | None = None,
        monotonic: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the address of one node or of several, `http://host:port` or `https://host:port`.

        Raises:
            InvalidArgumentError: if an address can't be used.
            ConfigurationError: if the credentials can't be read.
        """
        seeds = [addresses] if isinstance(addresses, str) else list(addresses)
        self._core = ClientCore(seeds, limits or ClientLimits(), monotonic=monotonic)
        self._lock = threading.Lock()
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._connections = NodeConnections(credentials or Credentials(), self._clock)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="state-client")

    def stores(self) -> list[dict[str, Any]]:
        """The stores, as one node lists them."""
        listed: list[dict[str, Any]] = self.ask(document("/state/stores")).value
        return listed

    def cluster(self) -> dict[str, Any]:
        """The nodes and their partitions, as one of them sees it."""
        members: dict[str, Any] = self.ask(document(MAP_PATH)).value
        self._learn(members)
        return members

    def lag(self) -> list[NodeLag]:
        """The lag of each node's replicas. A node that does not answer is listed with the reason."""
        with contextlib.suppress(StateError):  # then only of the configured nodes
            self.cluster()
        addresses = list(self._core.nodes.addresses)
        # A node that hangs takes all the time that it is given: the others must not wait for it.
        with ThreadPoolExecutor(max(len(addresses), 1)) as pool:
            return list(pool.map(self._lag_of, addresses))

    def ask(self, query: Query[T]) -> Reading[T]:
        """The answer to a query; the stores' methods make them. Raises as the class says."""
        if query.known is not None:
            return query.known
        reading = self._answer(query)
        self._refresh_map()
        return reading

    def rows(self, first: Query[Page[T]]) -> Rows[T]:
        """The rows of a page and of all that follow it."""
        return Rows(self.ask, first)

    def require(self, store: str, token: PositionToken) -> None:
        """From now on, answers about a store include everything up to the token's positions."""
        with self._lock:
            self._core.require(store, token)

    def close(self) -> None:
        """Closes the connections. Queries under way end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, query: Query[T]) -> Reading[T]:
        with self._lock:
            exchange = self._core.begin(query, self._now_s())
        running: _Running = {}
        try:
            while True:
                with self._lock:
                    step = exchange.step(self._now_s())
                if isinstance(step, Answered):
                    break
                if isinstance(step, Ask):
                    self._begin(exchange, step, query.body, running)
                else:
                    self._await(exchange, running, step.until_s)
        finally:
            for future in running:
                future.cancel()
        with self._lock:
            return self._core.finish(query, step.reply, self._now_s())

    def _begin(self, exchange: Exchange, ask: Ask, body: bytes | None, running: _Running) -> None:
        """Asks from this thread while no other attempt runs or is due, else from a thread of the pool."""
        sent = None if running else self._connections.send_kept(ask, body)
        if sent is not None and sent.answers_within(ask.alone_until_s - self._now_s()):
            outcome = sent.outcome()
            if outcome is not None:
                with self._lock:
                    exchange.on_outcome(ask.attempt, outcome, self._now_s())
                return
            sent = None
        running[self._handed_over(ask, body, sent)] = ask.attempt

    def _handed_over(self, ask: Ask, body: bytes | None, sent: Sent | None) -> Future[Outcome]:
        try:
            future = self._threads.submit(self._ask, ask, body, sent)
        except RuntimeError:  # the client has been closed
            if sent is not None:
                sent.abandon()
            raise
        if sent is not None:
            future.add_done_callback(lambda ended: sent.abandon() if ended.cancelled() else None)
        return future

    def _await(self, exchange: Exchange, running: _Running, until_s: float) -> None:
        left_s = max(0.0, until_s - self._now_s())
        if not running:
            self._sleep(left_s)
            return
        for future in wait(running, left_s, FIRST_COMPLETED).done:
            with self._lock:
                exchange.on_outcome(running.pop(future), future.result(), self._now_s())

    def _ask(self, ask: Ask, body: bytes | None, sent: Sent | None) -> Outcome:
        """Runs in another thread: reads the answer of `sent`, or sends the query itself."""
        sent = sent or self._connections.send_kept(ask, body)
        outcome = None if sent is None else sent.outcome()
        if outcome is not None:
            return outcome
        sent_anew = self._connections.send(ask, body)
        return sent_anew if isinstance(sent_anew, Failure) else sent_anew.outcome() or Failure("closes its connections")

    def _refresh_map(self) -> None:
        with self._lock:
            query = self._core.map_query(self._now_s())
        if query is not None:
            self._threads.submit(self._fetch_map, query)

    def _fetch_map(self, query: Query[Any]) -> None:
        try:
            self._learn(self._answer(query).value)
        except StateError:
            return  # it is fetched again soon; until then any node finds a key's holder

    def _learn(self, members: Any) -> None:
        with self._lock:
            self._core.learn(members, self._now_s())

    def _lag_of(self, address: str) -> NodeLag:
        try:
            lag = self.ask(document("/state/lag", address)).value
        except StateError as error:
            return NodeLag(address, "", [], str(error))
        return NodeLag(address, lag["node"], lag["replicas"], None)

    def _now_s(self) -> float:
        return self._clock.monotonic_s()
