from __future__ import annotations

import io
import math
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from storekeeper.cli.output import ListOutput
from storekeeper.cli.sql_output import parse_versions, run_sql, to_json, to_table
from storekeeper.snapshots.sql import Column, QueryResult


def _result(**values: object) -> QueryResult:
    return QueryResult(tuple(Column(name, "VARCHAR") for name in values), (tuple(values.values()),))


def _printed(result: QueryResult) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(to_table(result))
    return out.getvalue()


def test_json_keeps_every_digit() -> None:
    assert to_json(_result(points=Decimal("123456789012345.6700"), big=2**70)).endswith(
        b'"rows":[{"points":123456789012345.6700,"big":1180591620717411303424}]}'
    )


def test_json_of_the_other_kinds() -> None:
    row = orjson.loads(to_json(_result(blob=b"\x00\xff", nan=math.nan, none=None, flag=True, items=[{"k": b"a"}])))
    assert row["rows"] == [{"blob": "\\x00ff", "nan": None, "none": None, "flag": True, "items": [{"k": "\\x61"}]}]


def test_columns_of_the_same_name_are_told_apart() -> None:
    result = QueryResult(tuple(Column(name, "INTEGER") for name in ("a", "a_2", "a", "a")), ((1, 2, 3, 4),))
    assert orjson.loads(to_json(result))["rows"] == [{"a": 1, "a_2": 2, "a_3": 3, "a_4": 4}]


def test_a_table_shows_text_and_counts_rows() -> None:
    printed = _printed(_result(value=b'{"a":1}', raw=b"\xff", none=None))
    assert '{"a":1}' in printed
    assert "\\xff" in printed
    assert "1 row" in printed


def test_stored_data_does_not_steer_the_terminal() -> None:
    printed = _printed(_result(value="\x1b[2Jgone", markup="[red]plain[/red]"))
    assert "\x1b" not in printed
    assert "\\x1b[2Jgone" in printed
    assert "[red]plain[/red]" in printed


def test_run_sql_prints_one_json_object(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "rewards", pa.table({"CustomerCardNo": ["c" * 200]}))
    out = io.StringIO()
    run_sql(tmp_path, "FROM rewards", output=ListOutput.JSON, console=Console(file=out, width=20))
    assert orjson.loads(out.getvalue())["rows"] == [{"CustomerCardNo": "c" * 200}]


def test_run_sql_prints_a_table_of_the_version_asked_for(tmp_path: Path) -> None:
    for card in ("first", "second"):
        write_deltalake(tmp_path / "rewards", pa.table({"CustomerCardNo": [card]}), mode="append")
    out = io.StringIO()
    run_sql(tmp_path, "FROM rewards", output=ListOutput.TABLE, console=Console(file=out), at_version={"rewards": 0})
    assert "first" in out.getvalue()
    assert "second" not in out.getvalue()


def _shown(root: Path, sql: str, width: int) -> str:
    out = io.StringIO()
    run_sql(root, sql, output=ListOutput.TABLE, console=Console(file=out, width=width))
    return out.getvalue()


def test_rows_wider_than_the_terminal_are_shown_whole(tmp_path: Path) -> None:
    names = [f"a_column_of_some_length_{number}" for number in range(9)]
    write_deltalake(tmp_path / "rewards", pa.table({name: [f"value of {name}"] for name in names}))
    narrow = _shown(tmp_path, "FROM rewards", 80)
    assert all(name in narrow and f"value of {name}" in narrow for name in names)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert "1 row" in _shown(tmp_path, "FROM rewards", 1000), "a table where there is room"


def test_without_a_snapshot_it_is_said_what_makes_one(tmp_path: Path) -> None:
    assert "the DAG snapshot_stores writes the first" in " ".join(_shown(tmp_path, "SHOW TABLES", 200).split())


def _no_gate(_table: str) -> None:
    return None


def test_versions_are_parsed() -> None:
    assert parse_versions(["rewards=3", "a=b=0"], _no_gate) == {"rewards": 3, "a=b": 0}


def test_the_last_good_version_is_looked_up_and_may_be_the_newest() -> None:
    good: dict[str, int | None] = {"rewards": 7, "hadoop_export": None}
    assert parse_versions(["rewards=good", "hadoop_export=good"], good.__getitem__) == {"rewards": 7}


@pytest.mark.parametrize("wrong", ["rewards", "=3", "rewards=", "rewards=-1", "rewards=x"])
def test_wrong_versions_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="write <table>=<version>"):
        parse_versions([wrong], _no_gate)
