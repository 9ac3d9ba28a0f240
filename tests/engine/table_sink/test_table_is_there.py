"""An export does not go on in an empty place: the lines before would be missing for good."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.table_sink.stream import check_table_is_there
from storekeeper.errors import ConfigurationError


def test_a_new_export_makes_its_table_and_a_begun_one_must_find_it(tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", BatchCheckpoint(tmp_path / "checkpoint")
    check_table_is_there(table, checkpoint)
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    check_table_is_there(table, checkpoint)
    (tmp_path / "checkpoint" / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(ConfigurationError, match=rf"no table at {table}: copy the table there or correct tables_uri"):
        check_table_is_there(table, checkpoint)
    write_deltalake(table, pa.table({"a": [1]}))
    check_table_is_there(table, checkpoint)
