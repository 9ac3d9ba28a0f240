"""Rows that can't become those of a generation are refused by name, before the first is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from storekeeper.generations.errors import GenerationRefusedError, UnconvertibleRowsError
from storekeeper.generations.seed_checks import SeedCheck
from storekeeper.generations.seed_rows import MISPLACED, ROWS
from storekeeper.locations import location

CHECK = SeedCheck(7, ["totals", "windows"])
Row = tuple[str, int | None, bytes | None, str | None]


def look(content: list[Row], place: Path) -> None:
    CHECK.of_batches((made([row]) for row in content), location(str(place)))


def made(content: list[Row]) -> pa.RecordBatch:
    whole = [(store, partition, key, b"v", 1, problem) for store, partition, key, problem in content]
    columns = zip(*whole, strict=True)
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)],
                           schema=ROWS)  # fmt: skip


def test_all_rows_are_looked_at_before_the_first_is_refused(tmp_path: Path) -> None:
    fine: list[Row] = [("totals", 0, b"a", None), ("totals", 1, b"b", None), ("windows", 0, b"a", None)]
    look(fine, tmp_path)
    look([], tmp_path)
    with pytest.raises(GenerationRefusedError, match=r"^1 keys of totals would have several rows each, .* correct the"):
        look([*fine, ("totals", 0, b"a", None), ("totals", 0, b"a", None)], tmp_path)
    misplaced: Row = ("windows", None, None, MISPLACED)
    with pytest.raises(
        GenerationRefusedError, match=r"^2 rows of windows aren't in the partition of their key.* leave"
    ):
        look([*fine, misplaced, misplaced], tmp_path)
    wrong: list[Row] = [("totals", None, None, "KeyError"), ("windows", None, None, "ValueError")]
    told = r"^3 rows of totals and windows can't be converted \(2 x ValueError; 1 x KeyError\)"
    with pytest.raises(UnconvertibleRowsError, match=told):
        look([*fine, *wrong, wrong[1]], tmp_path)
