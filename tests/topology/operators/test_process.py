"""Processors: what their context knows of the record, and lets them forward."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.topology import ProcessorContext, StreamsBuilder, TopologyTestDriver, until_limit
from storekeeper.topology.times import TimeKind


class Renaming:
    """Forwards each value under a key of its own."""

    def init(self, context: ProcessorContext[Any, int]) -> None:
        self.context = context

    def process(self, key: Any, value: int, timestamp_ms: int) -> None:
        self.context.forward(value, value)


class Summing(Renaming):
    """Forwards under the same key, and at a timer under the last one."""

    def init(self, context: ProcessorContext[Any, int]) -> None:
        super().init(context)
        self.last = 0
        context.schedule(10, TimeKind.STREAM_TIME, lambda now_ms: context.forward(self.last, -now_ms))

    def process(self, key: int, value: int, timestamp_ms: int) -> None:
        self.last = int(str(key))
        self.context.forward(self.last, value)


class Stamping(Renaming):
    """Forwards the time that it knows of a record."""

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.context.forward(key, self.context.timestamp_ms)


def refusal(key: Any, value: int, keys: Any) -> str:
    """The refusal of a key, wherever it ends up."""
    streams = StreamsBuilder("app")
    streams.stream("in", int, keys=keys).process_values(Renaming, values=int, named="renaming").to("out")
    driver = TopologyTestDriver(streams.build())
    try:
        driver.pipe("in", key, value)
    except InvalidArgumentError as error:
        return str(error)
    return driver.dead_letters[0].reason if driver.dead_letters else ""


def test_process_values_keeps_the_key() -> None:
    assert refusal(7, 7, int) == ""
    assert "renaming: process_values keeps the key" in refusal(8, 7, int)


@pytest.mark.parametrize("key", ["7", True, 7.0])
def test_a_key_that_is_equal_and_written_otherwise_is_another(key: Any) -> None:
    assert "renaming: process_values keeps the key" in refusal(key, 1 if key is True else 7, type(key))


def test_an_equal_key_and_the_keys_of_timers_are_forwarded() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int, keys=int).process_values(Summing, values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", 1000, 1, 5)
    driver.pipe("in", 1000, 2, 20)
    assert [(key, value) for key, value, _ in driver.read("out")] == [(1000, 1), (1000, -5), (1000, 2), (1000, -20)]


def test_a_record_that_waited_has_its_own_time() -> None:
    streams = StreamsBuilder("app")
    rows = streams.table("in", int, store="rows").suppress(until_limit(timedelta(milliseconds=10))).to_stream()
    rows.process(Stamping, values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    for key, timestamp_ms in [("a", 0), ("b", 50), ("c", 100)]:
        driver.pipe("in", key, 1, timestamp_ms)
    assert driver.read("out") == [("a", 0, 0), ("b", 50, 50)]
