from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.snapshots import duck, sql
from storekeeper.snapshots.duck import Scan
from storekeeper.snapshots.sql import Column, list_tables, query

TIMES = pa.timestamp("us", tz="UTC")


def _rewards(totals: dict[str, str]) -> pa.Table:
    return pa.table(
        {
            "CustomerCardNo": list(totals),
            "TotalLoyaltyPoints": pa.array([Decimal(total) for total in totals.values()], pa.decimal128(18, 4)),
            "LastInvoiceTime": pa.array([datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)] * len(totals), TIMES),
            "_value": [b'{"CustomerCardNo":"x"}'] * len(totals),
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "rewards", _rewards({"c1": "1.5000", "c2": "12.0001"}))
    write_deltalake(tmp_path / "rewards", _rewards({"c3": "3.0000"}), mode="append")
    write_deltalake(tmp_path / "hadoop_export", pa.table({"InvoiceNumber": ["i1"], "day": [datetime.date(2026, 1, 2)]}))
    (tmp_path / "not_a_table").mkdir()
    return tmp_path


def test_values_keep_their_types_and_digits(root: Path) -> None:
    result = query(root, "SELECT * FROM rewards WHERE CustomerCardNo = 'c2'")
    assert result.columns == (
        Column("CustomerCardNo", "VARCHAR"),
        Column("TotalLoyaltyPoints", "DECIMAL(18,4)"),
        Column("LastInvoiceTime", "TIMESTAMP WITH TIME ZONE"),
        Column("_value", "BLOB"),
    )
    ((card, points, when, value),) = result.rows
    assert (card, str(points), value) == ("c2", "12.0001", b'{"CustomerCardNo":"x"}')
    assert when == datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def test_a_table_named_twice_is_read_twice(root: Path) -> None:
    assert query(root, "SELECT count(*) FROM rewards a JOIN rewards b USING (CustomerCardNo)").rows == ((3,),)


def test_tables_join_each_other(root: Path) -> None:
    assert query(root, "SELECT count(*) FROM rewards, hadoop_export").rows == ((3,),)


def test_one_version_is_read_throughout_although_a_writer_commits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Callable[[Scan, object], object] = Scan.__arrow_c_stream__

    def read_then_commit(scan: Scan, requested_schema: object = None) -> object:
        stream = read(scan, requested_schema)
        if scan._table.table_uri.rstrip("/").endswith("rewards"):
            write_deltalake(root / "rewards", _rewards({"late": "1.0000"}), mode="append")
        return stream

    monkeypatch.setattr(Scan, "__arrow_c_stream__", read_then_commit)
    rows = query(root, "SELECT (SELECT count(*) FROM rewards), (SELECT count(*) FROM rewards)").rows
    assert rows == ((3, 3),)
    assert DeltaTable(root / "rewards").version() > 1


def test_an_older_version_answers_as_it_did_then(root: Path) -> None:
    assert query(root, "SELECT count(*) FROM rewards", at_version={"rewards": 0}).rows == ((2,),)


def test_an_unknown_version_is_refused(root: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rewards has no readable version 9: its newest is \d$"):
        query(root, "SELECT 1", at_version={"rewards": 9})


def test_a_version_of_an_unknown_table_is_refused(root: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no table reward; there are: hadoop_export, rewards"):
        query(root, "SELECT 1", at_version={"reward": 0})


def test_deletion_vectors_hide_deleted_rows(root: Path) -> None:
    DeltaTable(root / "rewards").delete("CustomerCardNo = 'c1'")
    assert query(root, "SELECT CustomerCardNo FROM rewards ORDER BY 1").rows == (("c2",), ("c3",))


def test_an_unknown_table_lists_the_known_ones(root: Path) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"no table reward; there are: hadoop_export, rewards\. .*storekeeper snapshot create",
    ):
        query(root, "SELECT * FROM reward")


def test_no_tables_at_all_says_who_writes_the_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="DAG snapshot_stores"):
        query(tmp_path / "absent", "SELECT * FROM rewards")


def test_tables_and_columns_can_be_listed(root: Path) -> None:
    assert list_tables(root) == ("hadoop_export", "rewards")
    assert query(root, "SHOW TABLES").rows == (("hadoop_export",), ("rewards",))
    assert query(root, "DESCRIBE hadoop_export").rows[0][:2] == ("InvoiceNumber", "VARCHAR")
    assert query(root, "EXPLAIN SELECT * FROM rewards").rows


@pytest.mark.parametrize(
    ("statement", "opened"),
    [
        ("SELECT count(*) FROM Rewards", ["rewards"]),
        ("SELECT 1", ["hadoop_export", "rewards"]),
        ("SELECT table_name FROM information_schema.tables", ["hadoop_export", "rewards"]),
    ],
)
def test_a_statement_opens_the_tables_that_it_may_name(
    root: Path, monkeypatch: pytest.MonkeyPatch, statement: str, opened: list[str]
) -> None:
    found = list[str]()

    def noted(path: Path) -> DeltaTable:
        found.append(path.name)
        return DeltaTable(path)

    monkeypatch.setattr(sql, "delta_table", noted)
    assert query(root, statement).rows
    assert found == opened


def test_a_damaged_table_stops_only_those_who_name_it(root: Path) -> None:
    for commit in (root / "hadoop_export" / "_delta_log").iterdir():
        commit.write_text("damaged")
    assert query(root, "SELECT count(*) FROM rewards").rows == ((3,),)
    with pytest.raises(StorageError, match="table hadoop_export can't be read"):
        query(root, "SELECT * FROM hadoop_export")


def test_a_missing_data_file_is_an_error_not_an_empty_answer(root: Path) -> None:
    for data in (root / "rewards").glob("*.parquet"):
        data.unlink()
    with pytest.raises((StorageError, InvalidArgumentError)):
        query(root, "SELECT CustomerCardNo FROM rewards")


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "-- nothing but a comment",
        "SELECT 1; SELECT 2",
        "CREATE TABLE t AS SELECT 1",
        "INSERT INTO rewards SELECT * FROM rewards",
        "DELETE FROM rewards",
        "DROP VIEW rewards",
        "COPY rewards TO 'out.csv'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "CHECKPOINT",
        "SELEC 1",
    ],
)
def test_only_one_reading_statement_is_taken(
    root: Path, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidArgumentError):
        query(root, statement)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "reading",
    [
        "read_text('{path}')",
        "read_csv('{path}')",
        "read_blob('{path}')",
        "glob('{folder}/*')",
        "'{path}'",
        "read_parquet('http://127.0.0.1:1/x')",
        "delta_scan('{folder}/rewards')",
        "sqlite_scan('{path}', 'a')",
    ],
)
def test_files_and_network_are_out_of_reach(root: Path, reading: str) -> None:
    secret = root / "secret.csv"
    secret.write_text("canary")
    with pytest.raises((InvalidArgumentError, StorageError)) as caught:
        query(root, f"FROM {reading}".format(path=secret, folder=root))
    assert "canary" not in str(caught.value)


def test_python_variables_are_out_of_reach(root: Path) -> None:
    local_table = pa.table({"a": [1]})
    with pytest.raises(InvalidArgumentError, match="no table local_table"):
        query(root, "SELECT * FROM local_table")
    assert local_table.num_rows == 1


def test_memory_is_bounded_and_nothing_is_spilled(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(duck._CLOSED_AT_OPENING, "memory_limit", "20MB")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidArgumentError, match="of memory"):
        query(root, "SELECT list(i) FROM range(10000000) t(i)")
    assert sorted(tmp_path.rglob("*")) == before
