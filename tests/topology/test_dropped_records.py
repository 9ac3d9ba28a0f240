"""Records that were left out, by reason."""

from __future__ import annotations

import pytest

from storekeeper.errors import InvalidNameError
from storekeeper.topology import DropReason, ProcessorContext, StreamsBuilder, TopologyTestDriver
from storekeeper.topology.dropped_records import DroppedRecords


class Refuses:
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        if value > 0:
            self.context.forward(key, value)
        else:
            self.context.drop("out-of-stock" if value else DropReason.NULL_VALUE)


def test_a_processor_has_reasons_of_its_own() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).process_values(Refuses, values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    for value in (1, 0, -1, -2):
        driver.pipe("in", "a", value)
    assert driver.dropped.by_reason["out-of-stock"] == 2
    assert driver.dropped.by_reason[DropReason.NULL_VALUE] == 1
    assert driver.dropped.total == 3


def test_a_reason_is_a_name() -> None:
    dropped = DroppedRecords()
    with pytest.raises(InvalidNameError):
        dropped.drop("no stock of 5 pieces")
    assert dropped.total == 0


def test_reasons_are_added_and_forgotten() -> None:
    one, two = DroppedRecords(), DroppedRecords()
    two.drop("mine")
    two.drop("null-key")
    one.add(two)
    one.add(two)
    assert (one.by_reason["mine"], one.by_reason[DropReason.NULL_KEY], one.total) == (2, 2, 4)
    one.clear()
    assert dict(one.by_reason) == dict.fromkeys(DropReason, 0)
