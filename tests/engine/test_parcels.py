"""Parcels have the rows of one task each, in their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.engine.parcels import outcome_in, outcome_parcel, parcels_of, place_of, rows_in, stage_of
from storekeeper.engine.rows import SCHEMA, forwarded_rows, records_of
from storekeeper.topology.records import Moved


@given(st.lists(st.integers(0, 5), min_size=1, max_size=50))
def test_each_task_gets_its_rows_in_their_order(tasks: list[int]) -> None:
    outputs: list[Moved] = [(b"k", b"%d" % number, number, (), "t", 0, number) for number in range(len(tasks))]
    [rows] = forwarded_rows(tasks, 4, "r", outputs, origins=np.arange(len(tasks)))
    parcels = list(parcels_of(3, rows))
    assert [place_of(parcel) for parcel in parcels] == sorted({*tasks})
    for parcel in parcels:
        found = rows_in(parcel)
        assert (stage_of(parcel), found.schema) == (3, SCHEMA)
        numbers = [number for number, task in enumerate(tasks) if task == place_of(parcel)]
        assert found.column("origin").to_pylist() == numbers
        assert [record[3] for record in records_of(found)] == numbers


def test_an_outcome_goes_to_no_stage() -> None:
    parcel = outcome_parcel(b"done")
    assert (stage_of(parcel), place_of(parcel), outcome_in(parcel)) == (0, 0, b"done")
