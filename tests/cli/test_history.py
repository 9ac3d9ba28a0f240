"""`history`, `diff` and `tables`, on a run directory with tables: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from storekeeper.cli.entry import app
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from storekeeper.snapshots.as_of import iso_ms
from storekeeper.verification.check_verdict import CheckVerdict, put_verdict
from tests.snapshots.made_history import START_MS, Produced, value_of


@pytest.fixture
def produced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Produced:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1)), (1, b"c2", value_of("c2", "7", 2))])
    produced.commit([(0, b"c1", value_of("c1", "2.25", 2)), (0, b"c3", value_of("c3", "1", 1))])
    produced.commit([(1, b"c2", None)])
    produced.write(tmp_path / "delta", "rewards", appends=3)
    return produced


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def lines(*arguments: str) -> list[dict[str, object]]:
    outcome = run(*arguments, "--output", "json")
    assert outcome.exit_code == 0, outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def test_the_history_of_a_key(produced: Produced) -> None:
    newest, first = lines("history", "rewards", "c1")
    assert newest == {
        "changed_at_ms": produced.states[1][0],
        "key": "c1",
        "change": "written",
        "Card": "c1",
        "Points": 2.25,
        "Visits": 2,
        "batch": 2,
        "generation": 1,
        "partition": 0,
        "offset": 1,
    }
    assert (first["Points"], first["offset"]) == (1.5, 0)
    deleted, _ = lines("history", "rewards", "c2")
    assert (deleted["change"], deleted["Points"]) == ("deleted", None)
    shown = run("history", "rewards", "c1", "--limit", "1")
    assert iso_ms(produced.states[1][0]) in shown.stdout
    assert "the newest 1 changes: --limit shows more" in shown.stderr
    assert run("history", "rewards", "c2", "-o", "csv").stdout.startswith("changed_at_ms,key,change,Card,Points")


def test_columns_of_a_store_are_told_from_those_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    produced = Produced()
    produced.commit([(0, b"c1", value_of("other", "1.5", 7))])
    produced.write(tmp_path / "delta", "rewards", names={"Card": "key", "Visits": "batch"})
    (row,) = lines("history", "rewards", "c1")
    assert (row["key"], row["key_1"], row["batch"], row["batch_1"], row["Points"]) == ("c1", "other", 1, 7, 1.5)


def test_the_history_names_how_far_the_sources_were_read(produced: Produced) -> None:
    rows = lines("history", "rewards", "c1", "--sources")
    assert [row["sources"] for row in rows] == [{"pos": {"0": produced.now_ms}}] * 2


def test_a_change_from_before_the_log_of_the_table_has_no_sources(produced: Produced, tmp_path: Path) -> None:
    log = tmp_path / "delta" / "rewards_history" / "_delta_log"
    DeltaTable(tmp_path / "delta" / "rewards_history").create_checkpoint()
    (log / f"{0:020}.json").unlink()
    assert [row["sources"] for row in lines("history", "rewards", "c1", "--sources")] == [None, None]


def test_no_such_key_and_no_such_store(produced: Produced) -> None:
    del produced
    gone = run("history", "rewards", "nobody")
    assert (gone.exit_code, gone.stdout) == (3, "")
    assert "never had a row of key 'nobody'" in gone.stderr
    assert run("history", "reward", "c1").exit_code != 0


def test_the_difference_of_two_times(produced: Produced) -> None:
    times = [str(ms) for ms, _ in produced.states]
    rows = lines("diff", "rewards", times[0], times[2])
    assert [(row["key"], row["change"]) for row in rows] == [("c1", "changed"), ("c2", "removed"), ("c3", "added")]
    assert rows[0]["before"] == {"Card": "c1", "Points": 1.5, "Visits": 1}
    shown = run("diff", "rewards", iso_ms(produced.states[0][0]), times[1])
    assert "Points before" in shown.stdout
    assert shown.stderr.startswith("1 added, 1 changed; rows 2 to 3 (+1); Points 8.5000 to 10.2500 (+1.7500)")
    assert [row["key"] for row in lines("diff", "rewards", times[0], times[2], "--key", "c2")] == ["c2"]
    same = run("diff", "rewards", times[1], times[1])
    assert (same.exit_code, same.stdout) == (3, "")


def test_the_second_time_is_the_latest_that_the_history_knows(produced: Produced) -> None:
    first = str(produced.states[0][0])
    shown = run("diff", "rewards", first)
    assert shown.stdout == run("diff", "rewards", first, str(produced.now_ms)).stdout
    assert shown.stderr.startswith(f"the second time is {iso_ms(produced.now_ms)}, the latest that the history knows")


def test_the_totals_of_two_times(produced: Produced) -> None:
    first, last = produced.states[0][0], produced.states[2][0]
    csv = run("diff", "rewards", str(first), str(last), "--totals", "-o", "csv").stdout
    assert csv.splitlines() == [
        "of,before,after,difference",
        "rows,2,2,0",
        "Points,8.5000,3.2500,-5.2500",
        "Visits,3,3,0",
    ]


def test_times_are_not_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 7))])
    names = {"Visits": "seen_at_ms"}
    produced.write(tmp_path / "delta", "rewards", names=names, columns={"seen_at_ms": "int", "Points": "decimal(18,4)"})
    assert [row["of"] for row in lines("diff", "rewards", str(START_MS), "--totals")] == ["rows", "Points"]
    assert "seen_at_ms" not in run("diff", "rewards", str(START_MS)).stderr


def test_a_time_that_is_not_known_is_wrong_usage(produced: Produced) -> None:
    outcome = run("diff", "rewards", str(START_MS - 1), str(produced.now_ms))
    assert outcome.exit_code == 2
    assert "the earliest exact time is 2026-01-01T00:00:00.000Z" in outcome.stderr


def test_sql_as_of_a_time(produced: Produced) -> None:
    asked = ("sql", "SELECT sum(Points) AS points FROM rewards", "--as-of")
    for (at_ms, _), points in zip(produced.states, (8.5, 10.25, 3.25), strict=True):
        assert [row["points"] for row in lines(*asked, iso_ms(at_ms))] == [points]
    assert lines(*asked, str(produced.states[0][0]), "--at", "rewards=0")[0]["points"] == 3.25
    outcome = run(*asked, str(START_MS - 1))
    assert outcome.exit_code == 2
    assert "the earliest exact time is 2026-01-01T00:00:00.000Z" in outcome.stderr


def test_tables_are_listed_with_what_was_found_in_them(produced: Produced, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "delta" / "export", pa.table({"a": [1, 2]}), description="What was published.")
    put_verdict(tmp_path, CheckVerdict("verify", "rewards", passed=True, reasons=(), decided_at_ms=START_MS))
    (tmp_path / "delta" / "torn" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "torn" / "_delta_log" / f"{0:020}.json").write_text("damaged")
    found = {row["table"]: row for row in lines("tables")}
    assert list(found) == ["export", "rewards", "rewards_history", "torn"]
    assert (found["export"]["rows"], found["export"]["holds"]) == (2, "What was published.")
    assert (found["rewards"]["rows"], found["rewards_history"]["rows"]) == (2, len(produced.records))
    assert str(found["rewards"]["verified"]).startswith("equal, ")
    assert found["rewards_history"]["latest_exact_at_ms"] == produced.now_ms
    assert "damaged" in str(found["torn"]["error"]) or "read" in str(found["torn"]["error"])
    assert "rewards_history" in run("tables").stdout


def test_it_is_said_what_writes_the_first_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    outcome = run("tables")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert "`storekeeper snapshot create` writes the first" in outcome.stderr


def test_a_table_is_shown_with_its_columns_and_versions(produced: Produced, tmp_path: Path) -> None:
    del produced
    archive = VerdictArchive(tmp_path / "quality" / "verdicts" / "rewards_history")
    archive.put(Verdict("rewards_history", Status.PASSED, 2, 2, 1, START_MS, ()))
    (found,) = lines("tables", "rewards_history", "--versions", "2")
    assert found["columns"][0] == {"column": "Card", "type": "string", "comment": None}  # type: ignore[index]
    assert [(one["version"], one["checked"]) for one in found["versions"]] == [(2, "passed"), (1, None)]  # type: ignore[attr-defined]
    assert "Points" in run("tables", "rewards_history").stdout
    assert run("tables", "rewards_history", "-o", "csv").stdout.startswith("version,made_at_ms,age,operation")
    assert run("tables", "--schema", "shop").exit_code == 2
    assert run("tables", "rewards", "--register").exit_code == 2
