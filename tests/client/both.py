"""Both clients behind one face, so that each test of behaviour is run with either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from storekeeper.client.async_client import AsyncStateClient
from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.readings import Reading

QUICK = ClientLimits(timeout_s=5.0, attempt_s=0.6)
PATIENT = ClientLimits(timeout_s=60.0, attempt_s=30.0)
"""For what counts requests to nodes that answer: on a busy machine they may take longer than a quick attempt."""


class Blocking:
    """`StateClient`."""

    def __init__(self, *addresses: str, **settings: Any) -> None:
        self.client = StateClient(addresses, **{"limits": QUICK, **settings})

    def get(self, key: str | bytes = "k", **options: Any) -> Reading[Any]:
        return self.client.key_value("rewards").get(key, **options)

    def call(self, what: Callable[[Any], Any]) -> Any:
        return what(self.client)

    def rows(self, what: Callable[[Any], Any]) -> list[Any]:
        return list(what(self.client))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()


class Awaiting:
    """`AsyncStateClient` on a loop of its own."""

    def __init__(self, *addresses: str, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self.client = AsyncStateClient(addresses, **{"limits": QUICK, **settings})

    def get(self, key: str | bytes = "k", **options: Any) -> Reading[Any]:
        return self._run(self.client.key_value("rewards").get(key, **options))

    def call(self, what: Callable[[Any], Any]) -> Any:
        return self._run(what(self.client))

    def rows(self, what: Callable[[Any], Any]) -> list[Any]:
        async def collected() -> list[Any]:
            return [row async for row in what(self.client)]

        return self._run(collected())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self.client.close())
        self._runner.close()

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(what)


Either = type[Blocking] | type[Awaiting]
