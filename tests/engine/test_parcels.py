"""Parcels have the records of one task each, in their order, as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.engine.parcels import (
    MOST_BYTES,
    outcome_in,
    outcome_parcel,
    parcels_of,
    passed,
    place_of,
    records_in,
    stage_of,
)
from storekeeper.topology.records import Moved, Record


def packed(tasks: list[int], outputs: list[Moved], most_bytes: int = MOST_BYTES) -> list[bytes]:
    own: Any = np.array(tasks, np.int32)
    return list(parcels_of(3, own, 4, "r", outputs, origins=list(range(len(outputs))), most_bytes=most_bytes))


@given(st.lists(st.integers(0, 5), max_size=50), st.integers(1, 20))
def test_each_task_gets_its_records_in_their_order(tasks: list[int], most_bytes: int) -> None:
    outputs: list[Moved] = [(b"k", b"%d" % number, number, (), "t", 0, number) for number in range(len(tasks))]
    parcels = packed(tasks, outputs, most_bytes)
    got: dict[int, list[int]] = {}
    for parcel in parcels:
        found = records_in(parcel)
        assert (stage_of(parcel), found.topic, found.partition) == (3, "r", 4)
        assert len(found.values) == 1 or sum(len(value or b"") + 1 for value in found.values) <= most_bytes
        got.setdefault(place_of(parcel), []).extend(found.origins)
        assert found.origins == found.offsets == [record[3] for record in found.records()]
    assert got == {task: [number for number, to in enumerate(tasks) if to == task] for task in {*tasks}}
    assert passed(parcels)[0] == len(tasks)


def test_records_come_as_they_went() -> None:
    outputs: list[Moved] = [
        (b"k", b"v", 5, [("h", b"1"), ("g", b"")], "t", 0, 8), (b"l", None, -6, (), "t", 0, 9),
        (None, b"", 1 << 62, (), "t", 0, 9),
    ]  # fmt: skip
    [parcel] = packed([1, 1, 1], outputs)
    assert list(records_in(parcel).records()) == [
        Record("r", 4, 0, 5, b"k", b"v", [("h", b"1"), ("g", b"")]),
        Record("r", 4, 1, -6, b"l", None, []),
        Record("r", 4, 2, 1 << 62, None, b"", []),
    ]
    [plain] = packed([1], outputs[1:2])
    assert list(records_in(plain).records()) == [Record("r", 4, 0, -6, b"l", None, ())]


def test_headers_count_in_the_size_of_a_parcel() -> None:
    outputs: list[Moved] = [(b"k", b"v", 0, [("h", b"x" * 47)], "t", 0, number) for number in range(6)]
    assert [len(records_in(parcel).offsets) for parcel in packed([1] * 6, outputs, 100)] == [2, 2, 2]


def test_what_was_passed_on_differs_by_each_of_its_parts() -> None:
    first: list[Moved] = [(b"k", b"v", 5, (), "t", 0, 8), (b"k", b"w", 5, (), "t", 0, 9)]
    seen = {passed(packed([1, 1], first)), passed(packed([1, 2], first)), passed(packed([1, 1], first[::-1]))}
    for other in ((b"l", b"v", 5), (b"k", None, 5), (b"k", b"v", 6)):
        seen.add(passed(packed([1, 1], [(*other, (), "t", 0, 8), first[1]])))
    assert len(seen) == 6
    assert passed([]) == passed(packed([], []))


def test_an_outcome_goes_to_no_stage() -> None:
    parcel = outcome_parcel(b"done")
    assert (stage_of(parcel), place_of(parcel), outcome_in(parcel)) == (0, 0, b"done")
