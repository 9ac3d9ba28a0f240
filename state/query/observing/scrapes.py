"""The text of a node's metrics: written in turns, and at most once a second for all callers together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from state.clock import Clock
from state.query.reads.turns import Steps, Turns

_GOOD_FOR_S = 1.0


class Scrapes:
    """Belongs to one event loop."""

    def __init__(self, registry: CollectorRegistry, turns: Turns, clock: Clock) -> None:
        self._registry = registry
        self._turns = turns
        self._clock = clock
        self._written: asyncio.Future[bytes] | None = None
        self._begun_s = 0.0

    async def text(self) -> bytes:
        """Prometheus' text format, as of a second ago at the earliest."""
        now_s = self._clock.monotonic_s()
        written = self._written
        if written is None or now_s - self._begun_s >= _GOOD_FOR_S or (written.done() and _failed(written)):
            written = self._written = asyncio.ensure_future(self._turns.finish(_written(self._registry)))
            self._begun_s = now_s
        # Others wait for the same text: if one caller leaves, they must still get it.
        return await asyncio.shield(written)


class _One(Collector):
    """A single metric, to be written by itself."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _written(registry: CollectorRegistry) -> Steps[bytes]:
    parts: list[bytes] = []
    for metric in registry.collect():
        parts.append(generate_latest(_One(metric)))
        yield
    return b"".join(parts)


def _failed(written: asyncio.Future[bytes]) -> bool:
    return written.cancelled() or written.exception() is not None
