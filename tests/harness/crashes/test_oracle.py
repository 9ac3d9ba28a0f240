"""The oracle of the crashes finds what is missing and what is there twice: in outputs made without Spark or Kafka."""

from __future__ import annotations

from collections import defaultdict

import pytest

from harness.crashes.inputs import kind_of
from harness.crashes.oracle import Difference, PosOracle
from harness.poison import bad_sales
from harness.sales import good_sales
from harness.topics import Record
from spark_apps.pos import topology as topology_of_the_tills
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.engine.dead_letters import dead_letter
from storekeeper.topology import TopologyTestDriver

CHANGELOG = "pos-rewards-changelog"
OUTPUTS = ("shipment", "hadoop-sink", "loyalty", CHANGELOG, "pos-dlq")


def invoices() -> list[Record]:
    sales = [*good_sales(80, seed=1), *bad_sales(8)]
    return [Record(number % 4, number // 4, key, value, {}) for number, (key, value) in enumerate(sales)]


def everything_that_follows(records: list[Record]) -> dict[str, list[Record]]:
    """What the app's topology makes of the records, in two batches."""
    written: dict[str, list[Record]] = defaultdict(list)
    topology = described("pos", topology_of_the_tills, AppSettings())
    sinks = {sink.topic: sink for sub in topology.sub_topologies for sink in sub.sinks}
    driver = TopologyTestDriver(topology, {"pos": 4})
    logged = [0] * 4

    def write(topic: str, key: bytes | None, value: bytes | None, **headers: bytes | None) -> None:
        written[topic].append(Record(0, len(written[topic]), key, value, headers))

    for batch, own in enumerate((records[:40], records[40:])):
        for record in own:
            driver.append_bytes("pos", record.key, record.value, partition=record.partition)
        driver.run()
        for topic in ("shipment", "hadoop-sink", "loyalty"):
            keys, values = sinks[topic].key_serde, sinks[topic].value_serde
            for made in driver.read(topic):
                write(topic, keys.serialize(made.key), values.serialize(made.value))
        for partition, count in enumerate(logged):
            changes = driver.changelog("rewards", partition)
            logged[partition] = len(changes)
            for key, value in changes[count:]:
                write(CHANGELOG, key, value, **{"batch-id": b"%d" % batch})
    for letter in driver.dead_letters:
        of, data, _, headers = dead_letter(letter, app="pos")
        write("pos-dlq", of, data, **dict[str, bytes | None](headers))
    return written


def differences(written: dict[str, list[Record]]) -> list[Difference]:
    oracle = PosOracle(invoices(), kind_of)
    return [difference for difference in oracle.differences(written.__getitem__) if not difference.none]


def test_what_is_right_has_no_differences() -> None:
    assert differences(everything_that_follows(invoices())) == []


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_record_that_is_missing_is_found(output: str) -> None:
    written = everything_that_follows(invoices())
    assert written[output]
    del written[output][-1]
    (difference,) = differences(written)
    assert output.removeprefix("pos-rewards-") in difference.output
    assert difference.lost == 1


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_record_that_is_there_twice_is_found(output: str) -> None:
    written = everything_that_follows(invoices())
    written[output].append(written[output][-1])
    (difference,) = differences(written)
    assert output.removeprefix("pos-rewards-") in difference.output
    assert difference.doubled == 1


def test_a_purchase_that_is_counted_twice_is_found() -> None:
    twice = invoices()
    twice.append(next(record for record in twice if b'"PRIME"' in (record.value or b"")))
    assert {"changelog, rows", "loyalty"} <= {d.output for d in differences(everything_that_follows(twice))}


def test_a_difference_counts_what_is_missing_and_what_is_too_much() -> None:
    assert Difference.between("x", ["a", "b"], ["b", "b", "c"]) == Difference("x", lost=1, doubled=2)
