"""Records keep what they are, on their way between stages."""

from __future__ import annotations

import numpy as np

from storekeeper.engine.rows import forwarded_rows, records_of
from storekeeper.topology.records import Moved, Record


def test_records_pass_a_shuffle() -> None:
    outputs: list[Moved] = [(b"k", b"v", 5, [("h", b"1")], "t", 0, 8), (b"l", None, 6, (), "t", 0, 9)]
    [rows] = forwarded_rows([3, 1], 4, "r", outputs, origins=np.array([8, 9]))
    assert rows.column("origin").to_pylist() == [8, 9]
    assert rows.column("task").to_pylist() == [3, 1]
    assert list(records_of(rows)) == [
        Record("r", 4, 0, 5, b"k", b"v", [("h", b"1")]),
        Record("r", 4, 1, 6, b"l", None, ()),
    ]
