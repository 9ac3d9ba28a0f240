"""Joins of times with what became of keys give each time what was known then: a replay of what was produced."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.snapshots.as_of import changes_sql
from storekeeper.snapshots.sql import query
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.made_history import COLUMNS, START_MS, Produced, fields_of, played, value_of

KEYS = [b"a", b"aa", b"card-7", b"nobody"]


def labels(produced: Produced, drawn: random.Random, count: int) -> list[tuple[int, bytes, int]]:
    """Numbered keys at random times, and at those of batches."""
    times = [START_MS, *(ms + step for ms, _ in produced.states for step in (-1, 0, 1))]
    return [(number, drawn.choice(KEYS), drawn.choice(times)) for number in range(count)]


def known(produced: Produced, key: bytes, at_ms: int) -> dict[str, object] | None:
    """What the key had at a time."""
    return next((fields_of(value) for (_, one), value in produced.at(at_ms).items() if one == key), None)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_joins_give_what_was_known_then(seed: int) -> None:
    """25 joins of 60 keys and times each, across generations."""
    produced = played(seed, KEYS[:3], batches=25, stray=0)
    asked = labels(produced, random.Random(seed), 60)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("history", produced.table())
        changes = changes_sql("history", {name: name for name in COLUMNS}, produced.eras, produced.kind)
        connection.execute("CREATE TEMP TABLE labels(number INT, key VARCHAR, at_ms BIGINT)")
        connection.executemany("INSERT INTO labels VALUES (?, ?, ?)", [(n, key.decode(), at) for n, key, at in asked])
        connection.execute(f"CREATE TEMP VIEW changes AS {changes}")
        joined = connection.sql(
            """SELECT number, deleted, Card, Points, Visits FROM labels ASOF LEFT JOIN changes c
            ON labels.key = c.key AND make_timestamptz(labels.at_ms * 1000) >= c.changed_at ORDER BY number"""
        ).fetchall()
    assert len(joined) == len(asked)
    for (number, key, at_ms), (found, deleted, *fields) in zip(asked, joined, strict=True):
        expected = known(produced, key, at_ms)
        assert found == number
        assert fields == ([None] * 3 if expected is None else list(expected.values()))
        assert (deleted is False) == (expected is not None)


def test_columns_of_a_store_are_told_from_those_of_a_change(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("other", "0", 1))])
    produced.write(tmp_path, "rewards", names={"Card": "Key", "Points": "Key_1", "Visits": "DELETED"})
    for changes in ("rewards_changes", "rewards_changes_of(['c1'])"):
        found = query(tmp_path, f"SELECT key, deleted, Key_2, Key_1, deleted_1 FROM {changes}")  # noqa: S608 (ours)
        assert [*found.rows] == [("c1", False, "other", 0, 1)]


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1))])
    produced.commit([(0, b"c1", value_of("c1", "7", 1)), (0, b"c1", value_of("c1", "2.5", 2))])
    produced.commit([(0, b"c1", None)])
    produced.write(tmp_path, "rewards")
    found = query(tmp_path, "SELECT key, changed_at, deleted, Points FROM rewards_changes ORDER BY changed_at").rows
    assert [(key, deleted, None if points is None else float(points)) for key, _, deleted, points in found] == [
        ("c1", False, 1.5),
        ("c1", False, 2.5),
        ("c1", True, None),
    ]
    first_ms = produced.states[0][0]
    assert found[0][1] == datetime.datetime.fromtimestamp(first_ms / 1000, datetime.UTC)
    until = query(tmp_path, "SELECT count(*) FROM rewards_changes", as_of_ms=first_ms).rows
    assert until == ((1,),), "as of a time, later changes are not there"


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_the_changes_of_some_keys_are_those_of_all(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root = tmp_path_factory.mktemp("tables")
    played(seed, KEYS[:3], batches=10, stray=0).write(root, "rewards")
    both = {
        query(root, sql + " WHERE key IN ('a', 'card-7') ORDER BY ALL").rows
        for sql in (
            "SELECT * EXCLUDE _key FROM rewards_changes",
            "SELECT * EXCLUDE _key FROM rewards_changes_of(['card-7', 'a', 'a', 'nobody', NULL])",
        )
    }
    assert len(set(both)) == 1


def test_the_rows_of_one_key_are_told_apart_by_their_partition(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"total", value_of("c", "1", 1)), (3, b"total", value_of("c", "2", 2))])
    produced.commit([(3, b"total", None)])
    produced.write(tmp_path, "rewards")
    for changes in ("rewards_changes", "rewards_changes_of(['total'])"):
        sql = f"SELECT _partition, deleted, Visits FROM {changes} ORDER BY changed_at, _partition"  # noqa: S608 (ours)
        assert query(tmp_path, sql).rows == ((0, False, 1), (3, False, 2), (3, True, None))


def test_a_key_that_is_no_text_is_there_as_bytes(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"\xff", value_of("c1", "1.5", 1))])
    produced.write(tmp_path, "rewards")
    assert query(tmp_path, "SELECT key, _key FROM rewards_changes").rows == ((None, b"\xff"),)


def test_a_new_generation_on_other_partitions_ends_no_key_that_it_has(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1)), (0, b"c2", value_of("c2", "1", 1))])
    produced.hand_over({(2, b"c1"): value_of("c1", "1.5", 1)})
    produced.write(tmp_path, "rewards")
    found = query(tmp_path, "SELECT key, deleted FROM rewards_changes ORDER BY key, changed_at").rows
    assert found == (("c1", False), ("c1", False), ("c2", False), ("c2", True))


def test_a_field_may_be_named_as_a_parameter_or_a_part_of_a_query(tmp_path: Path) -> None:
    names = {"Card": "keys", "Points": "is_there", "Visits": "c"}
    produced = Produced()
    produced.commit([(0, b"c1", value_of("x", "1.5", 7))])
    produced.write(tmp_path, "rewards", names=names, columns={names[name]: kind for name, kind in COLUMNS.items()})
    for changes in ("rewards_changes", "rewards_changes_of(['c1'])", "rewards"):
        found = query(tmp_path, f"FROM {changes} SELECT keys, is_there::VARCHAR, c", as_of_ms=produced.now_ms)
        assert found.rows == (("x", "1.5000", 7),)


@pytest.mark.parametrize(
    ("kind", "row_key"),
    [
        (ServedKind.WINDOW, lambda key: window_row_key(key, 60_000, 1)),
        (ServedKind.SESSION, lambda key: session_row_key(key, 60_000, 70_000)),
        (ServedKind.VERSIONED, lambda key: version_row_key(key, 60_000)),
    ],
)
def test_the_key_of_a_window_is_that_in_front_of_its_time(
    tmp_path: Path, kind: ServedKind, row_key: Callable[[bytes], bytes]
) -> None:
    produced = Produced(kind)
    keys = ["a", "aa", "Zo\xeb"]
    produced.commit([(0, row_key(key.encode()), value_of(key, "1.5", 1)) for key in keys])
    produced.commit([(0, b"abc", value_of("foreign", "1.5", 1)), (0, b"", value_of("foreign", "1.5", 1))])
    produced.write(tmp_path, "sales")
    found = query(tmp_path, "SELECT key, Card FROM sales_changes WHERE Card <> 'foreign' ORDER BY ALL").rows
    assert found == tuple((key, key) for key in sorted(keys))
    some = query(tmp_path, "SELECT key, Card FROM sales_changes_of(['a', 'Zo\xeb', 'b']) ORDER BY ALL").rows
    assert some == (("Zo\xeb", "Zo\xeb"), ("a", "a"))
