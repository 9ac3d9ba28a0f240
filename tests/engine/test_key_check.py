"""Rows are where nodes look for them, whatever form a producer writes keys in."""

from __future__ import annotations

import json

import msgspec
import pytest

from storekeeper.apps.errors import MisplacedKeyError
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.key_check import KeyCheck
from storekeeper.topology import Store, StreamsBuilder
from storekeeper.topology.records import RecordFields
from storekeeper.topology.sub_topology import SubTopology

TASKS = 4


class Till(msgspec.Struct, frozen=True):
    shop: int
    number: int


def counted(keys: type) -> SubTopology:
    streams = StreamsBuilder("app")
    streams.stream("in", int, keys=keys).group_by_key().count(store=Store("counts", int))
    [sub] = streams.build().sub_topologies
    return sub


def record(key: bytes | None, partition: int) -> RecordFields:
    return ("in", partition, 7, 0, key, b"1", ())


def refused(sub: SubTopology, key: bytes | None, partition: int) -> str:
    """Why a key is refused in a partition; nothing if it isn't."""
    try:
        KeyCheck(sub, partition, TASKS, {"in"})([record(key, partition)])
    except MisplacedKeyError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("keys", [str, int, Till])
def test_a_key_in_its_own_form_may_be_in_its_own_partition_alone(keys: type) -> None:
    key = {str: b"till-1", int: b"17", Till: b'{"shop":1,"number":2}'}[keys]
    home = partition_for(key, TASKS)
    assert refused(counted(keys), key, home) == ""
    assert "partitioner=murmur2_random" in refused(counted(keys), key, (home + 1) % TASKS)


def test_a_key_in_another_form_is_refused_where_nodes_would_not_find_its_row() -> None:
    sub, outcomes = counted(Till), set[bool]()
    for number in range(40):
        till = Till(1, number)
        written, row = json.dumps(msgspec.structs.asdict(till)).encode(), msgspec.json.encode(till)
        at, home = partition_for(written, TASKS), partition_for(row, TASKS)
        why = refused(sub, written, at)
        assert bool(why) == (at != home)
        assert not why or (f"belongs to partition {home}" in why and "JSON has no blanks" in why)
        assert str(number) not in why.partition(": nodes")[2], "a message has nothing of a key"
        outcomes.add(bool(why))
    assert outcomes == {True, False}


def test_what_has_no_row_is_anywhere() -> None:
    for partition in range(TASKS):
        assert refused(counted(Till), None, partition) == ""
        KeyCheck(counted(Till), partition, TASKS, ())([record(b"17", partition)])
    undecodable = b"no till"
    assert refused(counted(Till), undecodable, partition_for(undecodable, TASKS)) == ""
