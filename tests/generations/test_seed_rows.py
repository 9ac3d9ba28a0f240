"""The rows of a seed: converted, put into partitions, written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.broker import Broker
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.skipped import headers_of
from storekeeper.engine.partitioning import partitions_of
from storekeeper.generations.migration import Chain, StoreMigration, StoreRecord
from storekeeper.generations.seed_rows import MISPLACED, ROWS, Placement, SeedTarget, converted_rows, written_rows
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.topology import StoreKind


def doubled(key: bytes, value: bytes) -> list[StoreRecord]:
    if value == b"odd":
        raise ValueError("a secret of " + key.decode())
    return [] if value == b"" else [(key, value * 2)]


def letters(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key[:1] + b"|" + key, value), (b"all", value)]


DOUBLED = StoreMigration("doubled", "totals", "Doubles.", 2, f"{__name__}:doubled")
LETTERS = StoreMigration("letters", "totals", "Letters.", 3, f"{__name__}:letters", changes_key=True)
STAYS = Placement(StoreKind.KEY_VALUE)


def rows(*content: tuple[int, bytes, bytes]) -> pa.RecordBatch:
    partitions, keys, values = zip(*content, strict=True)
    columns = {
        "_partition": pa.array(partitions, pa.int32()),
        "_key": pa.array(keys, pa.binary()),
        "_value": pa.array(values, pa.binary()),
        "_timestamp_ms": pa.array([1_000 + at for at in range(len(content))], pa.int64()),
    }
    return pa.record_batch(columns)


def converted(batch: pa.RecordBatch, *steps: StoreMigration, placement: Placement = STAYS) -> list[tuple[object, ...]]:
    made = converted_rows(iter([batch]), store="totals", chain=Chain(steps), placement=placement)
    return [tuple(row.values()) for frame in made for row in frame.to_pylist()]


def test_rows_keep_their_place_and_time_and_one_that_is_dropped_is_gone() -> None:
    assert converted(rows((3, b"a", b"1"), (0, b"b", b""), (1, b"c", b"2")), DOUBLED) == [
        ("totals", 3, b"a", b"11", 1_000, None),
        ("totals", 1, b"c", b"22", 1_002, None),
    ]


def test_what_is_wrong_with_a_row_is_told_without_a_byte_of_it() -> None:
    found = converted(rows((0, b"a", b"1"), (0, b"secret", b"odd")), DOUBLED)
    assert found[1:] == [("totals", None, None, None, None, "ValueError")]


def test_rows_with_new_keys_go_where_their_task_is() -> None:
    found = converted(rows((0, b"a", b"1"), (1, b"b", b"2")), DOUBLED, LETTERS, placement=moved(StoreKind.KEY_VALUE))
    keys = [b"a|a", b"all", b"b|b", b"all"]
    assert [(row[1], row[2]) for row in found] == list(zip(partitions_of(keys, 7).tolist(), keys, strict=True))


def moved(kind: StoreKind) -> Placement:
    return Placement(kind, 7)


@pytest.mark.parametrize(
    ("kind", "row_key"),
    [
        (StoreKind.KEY_VALUE, b"card"),
        (StoreKind.TTL, b"card"),
        (StoreKind.WINDOW, window_row_key(b"card", 60_000)),
        (StoreKind.SESSION, session_row_key(b"card", 10, 20)),
        (StoreKind.VERSIONED, version_row_key(b"card", 30)),
    ],
)
def test_the_key_that_a_task_is_found_by_decides_and_not_the_times_behind_it(kind: StoreKind, row_key: bytes) -> None:
    assert moved(kind).of([row_key], [0]) == partitions_of([b"card"], 7).tolist()


@pytest.mark.broker
def test_rows_are_written_with_their_times_and_headers_to_their_partitions(broker: Broker) -> None:
    broker.create_topic("seed-rows-changelog", 4)
    headers = ChangelogHeaders(2, 0, 1, {"events": {0: (9, 9)}}, 2)
    target = SeedTarget(
        broker.kafka,
        {},
        {"totals": "seed-rows-changelog"},
        {"totals": headers.encode()},
        timeout_s=30,
    )
    content = [("totals", at % 4, b"%d" % at, b"v", 1_000 + at, None) for at in range(200)]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*content, strict=True), ROWS, strict=True)]
    (told,) = written_rows(iter([pa.record_batch(columns, schema=ROWS)]), target=target)
    assert told.to_pylist() == [{"written": 200}]
    found = list(read_topic(broker.kafka, "seed-rows-changelog"))
    assert {(one.partition(), one.key(), one.timestamp()[1]) for one in found} == {
        (partition, key, time_ms) for _, partition, key, _, time_ms, _ in content
    }
    assert all(headers_of(one) == headers.encode() for one in found)


def test_a_row_whose_key_no_store_of_the_kind_makes_moves_by_the_whole_of_it() -> None:
    keys = [b"foreign", window_row_key(b"alice", 60_000), b""]
    found = Placement(StoreKind.WINDOW, 4).of(keys, [0, 0, 0])
    assert found == [partition_for(key, 4) for key in (b"foreign", b"alice", b"")]


def test_a_row_that_is_not_where_its_key_belongs_does_not_move() -> None:
    keys = [b"%d" % at for at in range(4)]
    right = partitions_of(keys, 2).tolist()
    there = rows(*((at, key, b"v") for at, key in zip(right, keys, strict=True)))
    placement = Placement(StoreKind.KEY_VALUE, 7, before=2)
    assert [row[2] for row in converted(there, placement=placement)] == keys
    elsewhere = rows(*((1 - at, key, b"v") for at, key in zip(right, keys, strict=True)))
    assert [row[5] for row in converted(elsewhere, placement=placement)] == [MISPLACED] * 4
    assert [row[1] for row in converted(elsewhere)] == [1 - at for at in right], "rows that stay are where they were"


def test_the_place_of_a_window_is_that_of_its_key() -> None:
    window, count = window_row_key(b"card", 60_000), 64
    at = partition_for(b"card", count)
    placement = Placement(StoreKind.WINDOW, 7, before=count)
    assert placement.misplaced([window, window, b"foreign"], [at, at + 1, at + 1]) == [False, True, False]
