from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from storekeeper.cli.output import ListOutput
from storekeeper.cli.sql_output import parse_versions, run_sql
from tests.snapshots.made_history import Produced, value_of

Captured = pytest.CaptureFixture[str]


def test_columns_of_the_same_name_are_told_apart(tmp_path: Path, capsys: Captured) -> None:
    run_sql(tmp_path, "SELECT 1 AS a, 2 AS a_2, 3 AS a, 4 AS a", output=ListOutput.JSON)
    assert json.loads(capsys.readouterr().out) == {"a": 1, "a_2": 2, "a_3": 3, "a_4": 4}


def test_json_has_all_digits_times_and_binaries(tmp_path: Path, capsys: Captured) -> None:
    asked = (
        "SELECT 123456789012345.6700::DECIMAL(20, 4) AS points, '\\x00\\xff'::BLOB AS raw, 'NaN'::DOUBLE AS nan, "
        "NULL AS none, DATE '2026-01-31' AS day, [{'k': true}] AS items"
    )
    run_sql(tmp_path, asked, output=ListOutput.JSON)
    line = capsys.readouterr().out
    assert '"points":123456789012345.6700,' in line
    row = json.loads(line)
    assert (row["raw"], row["nan"], row["none"]) == ("\\x00ff", None, None)
    assert (row["day"], row["items"]) == ("2026-01-31", [{"k": True}])


def test_a_table_shows_text_and_counts_rows(tmp_path: Path, capsys: Captured) -> None:
    run_sql(
        tmp_path,
        "SELECT '{\"a\":1}'::BLOB AS text, '\\xff'::BLOB AS raw, DATE '2026-01-31' AS day",
        output=ListOutput.TABLE,
    )
    shown = capsys.readouterr()
    assert shown.out.split()[-3:] == ['{"a":1}', "\\xff", "2026-01-31"]
    assert shown.err.startswith("1 row\n")


@pytest.mark.parametrize("width", ["", "x" * 300])
def test_columns_have_their_names(tmp_path: Path, capsys: Captured, width: str) -> None:
    """In a table, and in lines where that is too wide."""
    run_sql(
        tmp_path, f"SELECT 5 AS count_of_it, 7 AS read_at_ms, 8 AS \"[b]\", '{width}' AS wide", output=ListOutput.TABLE
    )
    shown = capsys.readouterr().out.split()
    assert {"count_of_it", "read_at_ms", "[b]"} <= {*shown}


def test_a_result_without_rows_has_its_columns_in_csv(tmp_path: Path, capsys: Captured) -> None:
    run_sql(tmp_path, "SELECT 1 AS one WHERE false", output=ListOutput.CSV)
    assert capsys.readouterr().out == "one\n"


def test_it_reads_the_version_asked_for(tmp_path: Path, capsys: Captured) -> None:
    for card in ("first", "second"):
        write_deltalake(tmp_path / "rewards", pa.table({"CustomerCardNo": [card]}), mode="append")
    run_sql(tmp_path, "FROM rewards", output=ListOutput.TABLE, at_version={"rewards": 0})
    shown = capsys.readouterr().out
    assert "first" in shown
    assert "second" not in shown


def test_rows_wider_than_the_terminal_are_shown_whole(tmp_path: Path, capsys: Captured) -> None:
    names = [f"a_column_of_some_length_{number}" for number in range(9)]
    write_deltalake(tmp_path / "rewards", pa.table({name: [f"value of {name}"] for name in names}))
    run_sql(tmp_path, "FROM rewards", output=ListOutput.TABLE)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "row 1"
    assert [line.rpartition("value of ")[2] for line in lines[1:]] == names


def test_without_a_snapshot_it_is_said_what_makes_one(tmp_path: Path, capsys: Captured) -> None:
    run_sql(tmp_path, "SHOW TABLES", output=ListOutput.TABLE)
    assert "`storekeeper snapshot create` writes the first" in capsys.readouterr().err


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


def test_it_reads_all_tables_as_of_a_time(tmp_path: Path, capsys: Captured) -> None:
    produced = Produced()
    for points in ("1.5", "2.5"):
        produced.commit([(0, b"c1", value_of("c1", points, 1))])
    produced.write(tmp_path, "rewards")
    run_sql(tmp_path, "SELECT Points FROM rewards", output=ListOutput.JSON, as_of_ms=produced.states[0][0])
    assert capsys.readouterr().out == '{"Points":1.5000}\n'
