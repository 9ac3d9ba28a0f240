"""Records behind a repartition know the source record that they come from, in the engine and in the test driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from storekeeper.engine.origins import UNKNOWN, Origins
from storekeeper.engine.parcels import ShuffledRecords, parcels_of, records_in
from storekeeper.topology import ProcessorContext, Store, StreamsBuilder, TopologyTestDriver, tumbling
from storekeeper.topology.record_order import UPSTREAM
from storekeeper.topology.records import Moved, Place

SOURCE = {"b": {0: (0, 10), 3: (0, 1 << 40)}, "a": {1: (5, 6)}}


def shuffled(origins: Origins, places: list[Place], *, of_one_partition: bool) -> ShuffledRecords:
    outputs: list[Moved] = [(b"k", b"v", 5, (), *place) for place in places]
    numbers = origins.numbers(outputs, of_one_partition=of_one_partition)
    [parcel] = parcels_of(1, np.zeros(len(outputs), np.int32), 7, "moved", outputs, origins=numbers)
    return records_in(parcel)


def test_records_of_a_shuffle_carry_the_places_of_their_sources() -> None:
    for places, alone in (
        ([("b", 3, 0), ("b", 3, (1 << 40) + 1)], True),
        ([("b", 3, 9), ("a", 1, 5), ("b", 0, 1)], False),
    ):
        behind = Origins(SOURCE)
        behind.keep_shuffled(shuffled(Origins(SOURCE), places, of_one_partition=alone))
        assert [behind.of(("moved", 7, index)) for index in range(len(places))] == places
        assert behind.of(("b", 0, 4)) == ("b", 0, 4)
        again = Origins(SOURCE)
        again.keep_shuffled(
            shuffled(behind, [("moved", 7, index) for index in range(len(places))], of_one_partition=False)
        )
        assert [again.of(("moved", 7, index)) for index in range(len(places))] == places


def test_what_is_not_known_keeps_its_own_place() -> None:
    origins = Origins(SOURCE)
    for place in (("", 0, -1), ("c", 0, 1), ("b", 0, 1 << 44)):
        for alone in (True, False):
            records = shuffled(origins, [place], of_one_partition=alone)
            assert records.origins == [UNKNOWN]
            behind = Origins(SOURCE)
            behind.keep_shuffled(records)
            assert behind.of(("moved", 7, 0)) == ("moved", 7, 0)
    assert np.array([UNKNOWN], np.int64)[0] < 0


def test_records_of_a_repartition_topic_have_it_in_their_header() -> None:
    origins = Origins(SOURCE)
    origins.keep_records(
        [
            ("moved", 2, 8, 5, b"k", b"v", [("own", b"x"), (UPSTREAM, b"4 b 3 77")]),
            ("moved", 2, 9, 5, b"k", b"v", [(UPSTREAM, b"4")]),
        ]
    )
    assert origins.of(("moved", 4, 8)) == ("b", 3, 77)
    assert origins.of(("moved", 4, 9)) == ("moved", 2, 9)


class Places:
    """Passes the place of each record on."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        if value == 13:
            raise LookupError
        self._context.forward(key, "{} {} {}".format(*self._context.place))


def described(streams: StreamsBuilder, *, topic: bool) -> None:
    moved = streams.stream("in", int).select_key(lambda _, value: str(value % 2))
    moved.repartition(topic="moved" if topic else None).process(Places, values=str).to("places")
    counts: Any = moved.group_by_key().windowed_by(tumbling(timedelta(seconds=1))).count(store=Store("counts", int))
    behind = counts.to_stream().select_key(lambda window, _: window.key).repartition(named="again")
    behind.process(Places, values=str).to("counted")


def test_the_driver_finds_them_however_its_batches_are_cut() -> None:
    for topic in (True, False):
        for cut in (1, 2, 10):
            streams = StreamsBuilder("app")
            described(streams, topic=topic)
            driver = TopologyTestDriver(streams.build(), {"in": 2})
            for number in range(10):
                driver.append("in", "k", number if number != 5 else 13, number, partition=number % 2)
                if number % cut == 0:
                    driver.run()
            driver.run()
            wanted = {f"in {number % 2} {number // 2}" for number in range(10)}
            assert {place for _, place, _ in driver.read("places")} == wanted - {"in 1 2"}
            assert {place for _, place, _ in driver.read("counted")} == wanted
            [letter] = driver.dead_letters
            assert letter.record[:3] == ("in", 1, 2)
            assert letter.record.value == b"13"
            assert letter.behind.startswith("app-") or letter.behind == "moved"


def test_an_app_that_is_to_fail_names_the_source_record() -> None:
    streams = StreamsBuilder("app")
    described(streams, topic=False)
    driver = TopologyTestDriver(streams.build(), on_error="fail")
    driver.append("in", "k", 1)
    driver.append("in", "k", 13)
    with pytest.raises(LookupError) as failed:
        driver.run()
    assert "while in[0]@1 was processed behind app-" in " ".join(failed.value.__notes__)
