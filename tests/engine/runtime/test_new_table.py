"""A table is made whether the catalogue answers afterwards or not, and an error that made none is never passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException

from storekeeper.engine.runtime.session import make_table


class Builder:
    """Commits a table, or does not; then it asks a catalogue that does not answer."""

    def __init__(self, path: Path, *, commits: bool) -> None:
        self._path = path
        self._commits = commits
        self.executed = 0

    def execute(self) -> None:
        self.executed += 1
        if self._commits:
            write_deltalake(self._path, pa.table({"Item": ["ale"]}))
        raise AnalysisException("could not connect to meta store")


def made(builder: Builder, path: Path) -> None:
    stand_in: Any = builder
    make_table(stand_in, path)


def test_a_catalogue_that_does_not_answer_after_the_commit_is_passed_over(tmp_path: Path) -> None:
    builder = Builder(tmp_path, commits=True)
    made(builder, tmp_path)
    made(builder, tmp_path)
    assert builder.executed == 1, "the table is there"


def test_an_error_without_a_table_is_raised(tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="could not connect"):
        made(Builder(tmp_path, commits=False), tmp_path)
