"""The rows at a time are those that a replay of what was produced gives, of every key and at every time."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.errors import InvalidArgumentError, NotExactError, SnapshotDamagedError
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.snapshots.as_of import (
    Coverage,
    changes_after,
    changes_sql,
    changes_until,
    fold_sql,
    iso_ms,
    row_columns,
    rows_of_key,
)
from storekeeper.snapshots.sql import query
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.made_history import SCHEMA, START_MS, Produced, played, value_of

_HOUR_MS = 3_600_000
_KEYS = [b"a", b"aa", b"b\x00", b"c\xff", b"card-7", b"", b"\x00\xff"]


def _times(produced: Produced, drawn: random.Random, count: int) -> list[int]:
    """Random times, and those around batches."""
    around = [ms + step for ms, _ in produced.states for step in (-1, 0, 1)]
    return [START_MS, *drawn.sample(around, min(count, len(around))), produced.now_ms + _HOUR_MS]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_random_reads_equal_a_replay(seed: int) -> None:
    """Each example reads 7 keys in 3 partitions at 14 times: 8,820 reads in all."""
    produced = played(seed, _KEYS, batches=30)
    drawn = random.Random(seed)
    with duckdb.connect(":memory:") as connection:
        connection.register("all_changes", produced.table())
        for at_ms in _times(produced, drawn, 12):
            until = changes_until(at_ms, produced.era(at_ms))
            connection.sql(f"CREATE OR REPLACE TEMP VIEW changes AS FROM all_changes WHERE {until}")
            rows = connection.sql(fold_sql("changes", ["_partition", "_key", "_value"])).fetchall()
            assert {(partition, key): value for partition, key, value in rows} == produced.at(at_ms)
            assert len(rows) == len(produced.at(at_ms))


def test_what_is_not_after_a_time_is_until_it() -> None:
    produced = played(7, _KEYS, batches=50)
    with duckdb.connect(":memory:") as connection:
        connection.register("changes", produced.table())
        for at_ms in _times(produced, random.Random(7), 30):
            parts = [f"count(*) FILTER ({part})" for part in (changes_until(at_ms), changes_after(at_ms))]
            counts = connection.sql(f"FROM changes SELECT {', '.join(parts)}").fetchall()[0]
            assert sum(counts) == len(produced.records)


def test_sql_as_of_a_time_has_the_rows_of_then_in_all_tables(tmp_path: Path) -> None:
    stores = {name: played(seed, _KEYS, batches=30) for seed, name in enumerate(("rewards", "points-2"))}
    for name, produced in stores.items():
        produced.write(tmp_path, name, appends=5, exact_to_ms=1 << 50)
    for at_ms in _times(stores["rewards"], random.Random(1), 4):
        for name, produced in stores.items():
            found = query(tmp_path, f'FROM "{name}" SELECT _partition, _key, _value', as_of_ms=at_ms).rows
            assert {(partition, key): value for partition, key, value in found} == produced.at(at_ms)
        joined = 'SELECT count(*) FROM rewards JOIN "points-2" USING (_partition, _key)'
        expected = len(stores["rewards"].at(at_ms).keys() & stores["points-2"].at(at_ms).keys())
        assert query(tmp_path, joined, as_of_ms=at_ms).rows == ((expected,),)


def test_the_columns_as_of_a_time_are_those_of_the_table(tmp_path: Path) -> None:
    played(3, _KEYS, batches=20).write(tmp_path, "rewards")
    now, then = query(tmp_path, "FROM rewards"), query(tmp_path, "FROM rewards", as_of_ms=START_MS + 60_000)
    assert then.columns == now.columns
    assert row_columns(SCHEMA.names) == [column.name for column in now.columns]
    assert query(tmp_path, "SHOW TABLES", as_of_ms=START_MS).rows == (
        ("rewards",),
        ("rewards_changes",),
        ("rewards_history",),
    )


def test_rows_as_of_a_time_need_the_history_alone(tmp_path: Path) -> None:
    produced = played(3, _KEYS, batches=20)
    produced.write(tmp_path, "rewards")
    shutil.rmtree(tmp_path / "rewards")
    found = query(tmp_path, "SELECT count(*) FROM rewards", as_of_ms=produced.now_ms)
    assert found.rows == ((len(produced.rows),),)


def test_a_history_as_of_a_time_ends_there(tmp_path: Path) -> None:
    produced = played(3, _KEYS, batches=20)
    produced.write(tmp_path, "rewards")
    at_ms = produced.states[10][0]
    asked = "SELECT count(*), max(_batch_ms) <= $T FROM rewards_history".replace("$T", str(at_ms))
    expected = sum(record["_batch_ms"] <= at_ms for record in produced.records)  # type: ignore[operator]
    assert query(tmp_path, asked, as_of_ms=at_ms).rows == ((expected, True),)


def test_a_named_version_goes_before_the_time(tmp_path: Path) -> None:
    produced = played(3, _KEYS, batches=20)
    produced.write(tmp_path, "rewards")
    counted = query(tmp_path, "SELECT count(*) FROM rewards", as_of_ms=START_MS, at_version={"rewards": 0}).rows
    assert counted == ((len(produced.rows),),)


def test_a_table_without_a_history_has_its_version_of_then(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path / "export", pa.table({"number": [number]}), mode="append")
    played(3, _KEYS, batches=5).write(tmp_path, "rewards")
    first, second = (commit["timestamp"] for commit in reversed(DeltaTable(tmp_path / "export").history()[1:]))
    for at_ms, rows in ((first, 1), (second, 2), (second + _HOUR_MS, 3)):
        assert query(tmp_path, "SELECT count(*) FROM export", as_of_ms=at_ms).rows[0][0] >= rows
    with pytest.raises(NotExactError, match=r"table export has no version as old as 2026-01-01T00:00:00\.000Z"):
        query(tmp_path, "FROM export", as_of_ms=START_MS)


def test_a_time_that_is_not_exact_stops_only_those_who_name_the_table(tmp_path: Path) -> None:
    one, other = (played(seed, _KEYS, batches=9) for seed in (3, 4))
    one.write(tmp_path, "rewards", exact_to_ms=1 << 50, gaps=((START_MS + 10, START_MS + 20),))
    other.write(tmp_path, "points", exact_to_ms=1 << 50)
    rows = len(other.at(START_MS + 15))
    assert query(tmp_path, "SELECT count(*) FROM points", as_of_ms=START_MS + 15).rows == ((rows,),)
    with pytest.raises(NotExactError, match=r"lacks changes .* earliest exact time is 2026-01-01T00:00:00\.020Z$"):
        query(tmp_path, "FROM rewards JOIN points USING (_key)", as_of_ms=START_MS + 15)
    with pytest.raises(NotExactError, match="lacks changes"):
        query(tmp_path, "FROM rewards_history", as_of_ms=START_MS + 15)
    with pytest.raises(InvalidArgumentError, match="there is no table other"):
        query(tmp_path, "FROM other", as_of_ms=START_MS)


def test_a_history_that_another_program_has_changed_answers_nothing(tmp_path: Path) -> None:
    played(3, _KEYS, batches=9).write(tmp_path, "rewards")
    DeltaTable(tmp_path / "rewards_history").delete("_partition = 0")
    for asked in ("FROM rewards", "FROM rewards_history"):
        with pytest.raises(SnapshotDamagedError, match="was changed by something else"):
            query(tmp_path, asked, as_of_ms=START_MS)


def test_only_exact_times_pass() -> None:
    coverage = Coverage(100, 900, [(200, 300), (300, 350), (500, 900), (880, 950)])
    for exact in (100, 199, 350, 499):
        coverage.check("rewards", exact)
    for wrong, nearest in ((0, 100), (99, 100), (200, 350), (299, 350), (349, 350)):
        with pytest.raises(NotExactError, match=f"earliest exact time is {iso_ms(nearest)}$".replace(".", r"\.")):
            coverage.check("rewards", wrong)
    for later in (500, 899, 900, 901, 1 << 62):
        with pytest.raises(NotExactError, match=r"exact until .*499Z.* `storekeeper snapshot create rewards`"):
            coverage.check("rewards", later)


def test_rows_of_a_key_are_its_own() -> None:
    for kind, row_key in (
        (ServedKind.WINDOW, lambda key: window_row_key(key, 5)),
        (ServedKind.SESSION, lambda key: session_row_key(key, 5, 9)),
        (ServedKind.KEY_VALUE, lambda key: key),
        (ServedKind.RANKED, lambda key: key),
    ):
        for key in filter(None, _KEYS):
            start, stop = rows_of_key(kind, key)
            assert [other for other in _KEYS if start <= row_key(other) < stop] == [key]


def test_values_are_typed_as_of_a_time(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1))])
    first_ms = produced.now_ms
    produced.commit([(0, b"c1", value_of("c1", "2.5", 2))])
    produced.write(tmp_path, "rewards")
    for at_ms, points in ((first_ms, "1.5000"), (produced.now_ms, "2.5000")):
        ((found,),) = query(tmp_path, "SELECT Points FROM rewards WHERE Card = 'c1'", as_of_ms=at_ms).rows
        assert str(found) == points


def test_a_key_in_several_partitions_has_the_changes_of_each_until_a_generation_moves_it() -> None:
    produced = Produced()
    produced.commit([(0, b"other", value_of("c", "1", 1)), (0, b"total", value_of("c", "10", 1))])
    produced.commit([(0, b"total", value_of("c", "11", 1)), (1, b"total", value_of("c", "7", 1))])
    produced.commit([(0, b"total", None), (1, b"total", value_of("c", "8", 1))])
    produced.hand_over({(2, b"total"): value_of("c", "9", 1)})
    produced.hand_over({})
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("history", produced.table())

        def changes(of: str, eras: list[int]) -> list[tuple[str, int, float | None]]:
            sql = changes_sql(of, {"Points": "Points"}, eras, produced.kind)
            rows = connection.sql(sql).project("key, epoch_ms(changed_at), Points::DOUBLE").fetchall()
            return sorted(rows, key=str)

        first, second, third, moved, gone = (at_ms for at_ms, _ in produced.states)
        expected = [
            *(("other", first, 1.0), ("other", moved, None), ("total", first, 10.0), ("total", second, 11.0)),
            *(("total", second, 7.0), ("total", third, 8.0), ("total", third, None), ("total", moved, 9.0)),
            ("total", gone, None),
        ]
        assert changes("history", produced.eras) == sorted(expected, key=str)
        of_era = f"(FROM history WHERE _batch_ms < {moved})"
        of_tasks = [f"(FROM {of_era} WHERE _partition = {number})" for number in range(3)]
        read_apart = [row for of in of_tasks for row in changes(of, produced.eras[:1])]
        assert sorted(read_apart, key=str) == changes(of_era, produced.eras[:1])
