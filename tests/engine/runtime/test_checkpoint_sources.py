"""The sources of a query in its checkpoint."""

from __future__ import annotations

import pytest

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.engine.runtime.checkpoint_sources import add_sources, with_end
from storekeeper.locations import Location
from tests.apps.checkpoints import write_checkpoint

ENDS = [{"pos": {"0": 10}}, {"pos": {"0": 20}}, {"pos": {"0": 30}}]


def sources(path: Location, batch_id: int) -> list[str]:
    _, _, *lines = (path / "offsets" / str(batch_id)).read_bytes().decode().splitlines()
    return lines


@pytest.mark.parametrize("committed", [2, 3])
def test_a_new_source_has_no_offsets_in_the_plans_that_spark_reads(place: Location, committed: int) -> None:
    path = place / "checkpoint"
    write_checkpoint(path, ENDS, committed=committed, initial={"pos": {"0": 1}})
    for _ in range(2):  # safe to repeat
        add_sources(SparkCheckpoint(path), 2)
    assert [len(sources(path, batch_id)) for batch_id in range(3)] == [1, 2, 2]
    assert sources(path, 2) == ['{"pos":{"0":30}}', "-"]
    assert SparkCheckpoint(path).end_position(2) == Position({"pos": {0: 30}})
    checksums = [entry.name for entry in (path / "offsets").iterdir() if entry.name.endswith("crc")]
    assert checksums == [".0.crc"], "Spark refuses a file that its checksum does not fit"


def test_the_first_start_has_nothing_to_add(place: Location) -> None:
    add_sources(SparkCheckpoint(place / "checkpoint"), 2)
    assert SparkCheckpoint(place / "checkpoint").last_planned_batch() is None


def test_each_source_ends_where_its_own_topics_do() -> None:
    plan = 'v1\n{}\n{"pos":{"0":1}}\n-\n{"own":{"0":2}}'
    ends = Position({"pos": {0: 5}, "own": {0: 6}})
    assert with_end(plan, ends) == 'v1\n{}\n{"pos":{"0":5}}\n-\n{"own":{"0":6}}'
    assert with_end(plan, Position({"pos": {0: 7}})) == 'v1\n{}\n{"pos":{"0":7}}\n-\n{"own":{"0":2}}'
