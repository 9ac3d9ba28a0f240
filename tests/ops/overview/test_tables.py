"""Numbers and times as people read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.ops.overview.model import FROZEN, Overview, Process
from storekeeper.ops.overview.tables import Cell, Severity, age, count, tables
from tests.ops.overview.made_up import NOW_MS, SEEN, quarantined


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(None, "-"), (0, "now"), (999, "now"), (1000, "1 s"), (59_999, "59 s"), (60_000, "1 min"), (7_200_000, "2 h"),
     (172_800_000, "2 d")],
)  # fmt: skip
def test_age(milliseconds: int | None, words: str) -> None:
    assert age(milliseconds) == words


def test_count() -> None:
    assert (count(None), count(0), count(1234567.4)) == ("-", "0", "1,234,567")


def test_no_number_of_rows_is_an_estimate() -> None:
    """An estimate that is off by a factor of twenty helps nobody."""
    titles = [column.title for table in tables(SEEN) for column in table.columns if column.number]
    assert [title for title in titles if "row" in title or "entries" in title] == ["rows/s", "rows in it", "rows"]
    assert not any("~" in cell.words for table in tables(SEEN) for row in table.rows for cell in row)


def test_an_app_leads_to_its_topology_if_it_has_one() -> None:
    (apps,) = (table for table in tables(replace(SEEN, topologies=["pos"])) if table.name == "apps")
    links = {row[0].words: row[0].link for row in apps.rows}
    assert (links["pos"], links["hadoop_export"]) == ("topology/pos", "")


def rows_of(name: str, view: Overview = SEEN) -> list[list[Cell]]:
    (table,) = (table for table in tables(view) if table.name == name)
    return [list(row) for row in table.rows]


def test_counts_and_times_are_told_apart() -> None:
    told = {cell.words for table in tables(SEEN) for row in table.rows for cell in row}
    assert told >= {"1,501", "none in 5 min", "4 of 8", "hangs", "restores 2 store partitions: 25 %, 9 s left"}


def test_an_app_says_whether_its_generation_is_live_and_how_far_a_change_is() -> None:
    change = "generation 1 hands over to generation 2 (waiting)"
    changed = [replace(app, role="live", change=change) for app in SEEN.apps[:1]]
    (row,) = rows_of("apps", replace(SEEN, apps=changed))
    assert row[2].words == "2 live"
    assert row[-1].words == f"restores 2 store partitions: 25 %, 9 s left; {change}"
    assert [row[2].words for row in rows_of("apps")] == ["2", "2", "2"]


def test_what_is_stopped_or_discarded_is_neither_good_nor_bad() -> None:
    severities = {cell.words: cell.severity for table in tables(SEEN) for row in table.rows for cell in row}
    assert (severities["RUNNING"], severities["STOPPED"], severities["discarded"]) == (
        Severity.GOOD,
        Severity.NEITHER,
        Severity.NEITHER,
    )
    (batch,) = rows_of("verdicts", Overview(NOW_MS, verdicts=[quarantined()]))
    assert batch[1].severity is Severity.BAD


def test_a_process_that_died_or_is_frozen_leaves_a_trace() -> None:
    frozen = Process("node-b", "RUNNING", False, 9, 1, "http://b", FROZEN)
    told = rows_of("processes", replace(SEEN, processes=[*SEEN.processes, frozen]))
    words = {row[0].words: [cell.words for cell in row[1:]] for row in told}
    assert words["node-a"][:4] == ["RUNNING", "2", "terminated by SIGKILL", "5 min"]
    assert (words["node-b"][0], words["node-b"][-1]) == ("RUNNING", FROZEN)
    assert "pos" not in words, "it is well, and has never ended by itself"
