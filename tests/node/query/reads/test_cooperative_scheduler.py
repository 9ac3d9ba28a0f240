"""Heavy work takes turns, and everything heavy that a node does is such work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from storekeeper.clock import ManualClock
from storekeeper.node.query.observing.metrics import Scrapes
from storekeeper.node.query.reads import stream_format
from storekeeper.node.query.reads.cooperative_scheduler import CooperativeScheduler, Steps, finished
from storekeeper.node.query.reads.stream_format import ARROW, NDJSON
from storekeeper.stores.row import ReplicaRow, decode_row
from tests.node.query.cluster import Cluster

AT_ONCE = 200
"""Rows of the largest piece."""


class Rounds:
    """Counts what is done in each round of the event loop."""

    def __init__(self) -> None:
        self.now = 0
        self.done: Counter[int] = Counter()
        self._ended = False

    def count(self) -> None:
        self.done[self.now] += 1

    async def during(self, *work: asyncio.Future[Any]) -> None:
        loop = asyncio.get_running_loop()

        def tick() -> None:
            self.now += 1
            if not self._ended:
                loop.call_soon(tick)

        tick()
        try:
            await asyncio.gather(*work)
        finally:
            self._ended = True


def steps(rounds: Rounds, count: int) -> Steps[int]:
    for _ in range(count):
        rounds.count()
        yield
    return count


def test_one_piece_runs_in_a_round_whoever_it_is_for() -> None:
    async def scenario() -> None:
        scheduler, rounds = CooperativeScheduler(), Rounds()
        work = [asyncio.ensure_future(scheduler.finish(steps(rounds, 5))) for _ in range(8)]
        await rounds.during(*work)
        assert [one.result() for one in work] == [5] * 8
        assert set(rounds.done.values()) == {1}
        assert rounds.done.total() == 40

    asyncio.run(scenario())


def test_work_that_nobody_waits_for_ends_and_keeps_nobody_waiting() -> None:
    ended = []

    def endless() -> Steps[None]:
        try:
            while True:
                yield
        finally:
            ended.append(True)

    async def scenario() -> None:
        scheduler = CooperativeScheduler()
        given_up = [asyncio.ensure_future(scheduler.finish(endless())) for _ in range(3)]
        for _ in range(10):
            await asyncio.sleep(0)
        for one in given_up:
            one.cancel()
        assert await scheduler.finish(steps(Rounds(), 3)) == 3
        await asyncio.gather(*given_up, return_exceptions=True)
        assert ended == [True] * 3

    asyncio.run(scenario())
    assert finished(steps(Rounds(), 2)) == 2


@pytest.mark.parametrize("accept", ["*/*", NDJSON, ARROW])
def test_scans_and_streams_write_no_more_than_a_piece_in_a_round(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds()

    def counted(name: str) -> None:
        write = getattr(stream_format, name)

        def write_counted(*row: bytes) -> object:
            rounds.count()
            return write(*row)

        monkeypatch.setattr(stream_format, name, write_counted)

    counted("_json_text" if accept == ARROW else "row_json")

    async def scenario() -> None:
        cluster = Cluster(nodes=("a",), partitions=4, stream_page_rows=1000)
        cluster.nodes["a"].streams._max_streams = 16
        for number in range(600):
            cluster.write("rewards", b"%04d" % number, b"%d" % number)
        ask = [
            asyncio.ensure_future(cluster.get("a", "/state/keyvalues/rewards/all?limit=1000", accept=accept))
            for _ in range(16)
        ]
        await rounds.during(*ask)
        assert {one.result().status_code for one in ask} == {200}

    asyncio.run(scenario())
    assert rounds.done.total() == 16 * 600
    assert max(rounds.done.values()) <= AT_ONCE


def test_scans_read_no_more_than_a_piece_in_a_round() -> None:
    rounds = Rounds()

    def counted(row: bytes) -> ReplicaRow:
        rounds.count()
        return decode_row(row)

    async def scenario() -> None:
        cluster = Cluster(nodes=("a",), partitions=1)
        for replica in cluster.nodes["a"].replicas.values():
            replica.read_row = counted
        for number in range(600):
            cluster.write("rewards", b"%04d" % number, b"%d" % number)
        ask = [asyncio.ensure_future(cluster.get("a", "/state/keyvalues/rewards/all?limit=1000")) for _ in range(16)]
        await rounds.during(*ask)

    asyncio.run(scenario())
    assert rounds.done.total() == 16 * 600
    assert max(rounds.done.values()) <= AT_ONCE


class Gauges(Collector):
    """Counts how often it is asked, and what is made of it in each round."""

    def __init__(self, rounds: Rounds) -> None:
        self.asked = 0
        self._rounds = rounds

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.asked += 1
        for number in range(20):
            self._rounds.count()
            yield GaugeMetricFamily(f"gauge_{number}", "A gauge.", value=number)


def test_scrapes_are_written_in_turns_and_once_a_second() -> None:
    rounds, registry, clock = Rounds(), CollectorRegistry(), ManualClock()
    gauges = Gauges(rounds)
    registry.register(gauges)
    before = gauges.asked

    async def scenario() -> None:
        scrapes = Scrapes(registry, CooperativeScheduler(), clock)
        asked = [asyncio.ensure_future(scrapes.text()) for _ in range(32)]
        await rounds.during(*asked)
        assert gauges.asked == before + 1
        assert set(rounds.done.values()) <= {1, 20}  # 20: as it was registered
        clock.advance(999)
        assert await scrapes.text() == asked[0].result()
        assert gauges.asked == before + 1
        clock.advance(2)
        assert await scrapes.text() == asked[0].result() == generate_latest(registry)
        assert gauges.asked == before + 3

    asyncio.run(scenario())


def test_a_scrape_that_is_given_up_leaves_its_text_to_the_others() -> None:
    registry = CollectorRegistry()
    registry.register(Gauges(Rounds()))

    async def scenario() -> None:
        scrapes = Scrapes(registry, CooperativeScheduler(), ManualClock())
        first, second = (asyncio.ensure_future(scrapes.text()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == generate_latest(registry)

    asyncio.run(scenario())
