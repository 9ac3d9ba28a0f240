"""Numbers and times as people read them."""

from __future__ import annotations

import pytest

from deploy.overview.tables import age, count, tables
from tests.deploy.overview.made_up import SEEN


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
    (apps,) = (table for table in tables(SEEN) if table.name == "apps")
    links = {row[0].words: row[0].link for row in apps.rows}
    assert (links["pos"], links["hadoop_export"]) == ("topology/pos", "")
