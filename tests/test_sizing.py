from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.sizing import GIB, MIB, Workload, kafka_streams_memory_bytes, size

SMALL = Workload(partitions=4, stores=1, rows=1_000_000, key_bytes=20, value_bytes=100)


def test_the_example_worked_out() -> None:
    sizing = size(SMALL)
    assert {part.name: part.bytes // MIB for part in sizing.memory} == {
        "base": 150, "replicas": 8, "block cache and write buffers": 256, "record caches": 10, "page cache": 106,
    }  # fmt: skip
    assert sizing.memory_bytes == 530 * MIB
    assert [part.bytes for part in sizing.disk] == [144_000_000, 14_400_000, 15_840_000]


def test_the_page_cache_is_a_fifth_of_the_total() -> None:
    sizing = size(SMALL)
    assert sizing.memory[-1].bytes == pytest.approx(sizing.memory_bytes * 0.2, rel=1e-6)


def test_the_bound_holds_the_write_buffers_of_every_replica() -> None:
    sizing = size(replace(SMALL, partitions=100))
    assert sizing.memory[2].bytes == 800 * MIB


def test_stores_share_the_bound() -> None:
    grown = size(replace(SMALL, stores=3))
    assert grown.memory[2] .bytes == size(SMALL).memory[2].bytes  # fmt: skip
    assert grown.disk_bytes == pytest.approx(3 * size(SMALL).disk_bytes, rel=1e-6)


def test_the_rule_of_thumb_for_kafka_streams() -> None:
    assert kafka_streams_memory_bytes(8, 3) / GIB == pytest.approx(4.8, abs=0.05)


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"stores": 0}, {"rows": -1}, {"key_bytes": 0}])
def test_impossible_workloads_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        replace(SMALL, **wrong)
