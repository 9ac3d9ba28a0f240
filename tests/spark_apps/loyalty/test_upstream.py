from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.errors import UnusableCheckpointError
from spark_apps.generations.errors import NotesGoneError
from spark_apps.loyalty.upstream import UpstreamMarks, contained, contained_ranges, unseen
from spark_apps.records.purchase import PrimePurchase, Reached


def bought(partition: int, offset: int) -> PrimePurchase:
    return PrimePurchase("A", 0, partition, offset, "1", 1.0)


def test_purchases_are_counted_once_and_in_their_order() -> None:
    marks: dict[int, int] = {0: 5}
    records: list[PrimePurchase | Reached] = [
        bought(0, 4),
        bought(0, 5),
        bought(1, 0),
        Reached(0, 9),
        bought(0, 7),
        bought(0, 10),
    ]
    assert list(unseen(records, marks)) == [bought(0, 5), bought(1, 0), bought(0, 10)]
    assert marks == {0: 11, 1: 1}


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=4), max_size=6),
    st.lists(st.integers(0, 5), max_size=3),
    st.randoms(use_true_random=False),
)
def test_batches_written_again_change_nothing(batches: list[list[bool]], again: list[int], random: object) -> None:
    offset, topic, once = 0, [], []
    for number, primes in enumerate(batches):
        written: list[PrimePurchase | Reached] = []
        for prime in primes:
            if prime:
                written.append(bought(0, offset))
            offset += 1
        written.append(Reached(0, offset - 1))
        once += [record for record in written if isinstance(record, PrimePurchase)]
        repeats = 1 + again.count(number)
        topic += written * repeats
    assert list(unseen(topic, {})) == once


def test_what_all_partitions_have_read_is_contained() -> None:
    assert contained([{0: 10, 1: 7}, {0: 12}, {0: 11, 1: 9}]) == {0: 10}
    assert contained([]) == {}
    assert contained_ranges([{0: 5}, {0: 6}], [{0: 10, 1: 2}, {0: 9, 1: 3}]) == {0: (5, 9), 1: (0, 2)}


def test_a_batch_that_is_run_again_starts_where_it_did(tmp_path: Path) -> None:
    marks = UpstreamMarks(tmp_path)
    assert marks.before(0, 1) == {}
    marks.write(0, 1, {0: 5})
    assert marks.before(0, 1) == {}
    assert marks.before(1, 1) == {0: 5}
    marks.write(1, 1, {0: 8, 3: 1})
    marks.write(1, 1, {0: 8, 3: 1})
    assert marks.before(1, 1) == {0: 5}
    # A batch without records of a partition has no marks of its own.
    assert marks.before(9, 1) == {0: 8, 3: 1}
    for batch in range(9, 30):
        marks.write(batch, 1, {0: batch})
    assert marks.before(29, 1) == {0: 28}
    assert len((tmp_path / "1.json").read_bytes()) < 200


def test_damaged_marks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_bytes(b"[1]")
    with pytest.raises(UnusableCheckpointError, match="put it back from a copy"):
        UpstreamMarks(tmp_path).before(1, 0)


def test_the_marks_of_a_finished_batch_are_handed_on(tmp_path: Path) -> None:
    old, new = UpstreamMarks(tmp_path / "gen-1"), UpstreamMarks(tmp_path / "gen-2")
    old.write(0, 0, {0: 5})
    for batch in range(3):
        old.write(batch, 1, {0: 7 + batch, 1: 3})
    assert old.after(1) == {"0": {"0": 5}, "1": {"0": 8, "1": 3}}
    for partition, marks in old.after(1).items():
        new.write(-1, int(partition), {int(place): offset for place, offset in marks.items()})
    assert new.before(0, 0) == {0: 5}
    assert new.before(0, 1) == {0: 8, 1: 3}


def test_marks_that_were_overwritten_are_not_taken_for_none(tmp_path: Path) -> None:
    files = UpstreamMarks(tmp_path)
    for batch in range(9):
        files.write(batch, 0, {0: batch})
    with pytest.raises(NotesGoneError, match="no marks of batch 2"):
        files.after(2)
