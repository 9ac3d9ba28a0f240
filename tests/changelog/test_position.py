"""Offset vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog.position import UNKNOWN_OFFSET, Position
from storekeeper.errors import InvalidArgumentError, SerializationError

positions = st.dictionaries(
    st.text(min_size=1, max_size=8), st.dictionaries(st.integers(0, 7), st.integers(0, 2**62), max_size=4), max_size=3
).map(Position)


@given(positions)
def test_comes_back_from_json(position: Position) -> None:
    assert list(Position.from_json(position.to_json())) == list(position)


@given(positions, positions)
def test_merging_reaches_both_and_goes_back_nowhere(one: Position, other: Position) -> None:
    merged = one.merged(other)
    assert merged.reaches(one)
    assert merged.reaches(other)
    assert list(merged) == list(other.merged(one))


def test_a_partition_never_goes_back() -> None:
    position = Position().at("t", 0, 10)
    assert position.at("t", 0, 5).offset("t", 0) == 10
    assert position.at("t", 0, 11).offset("t", 0) == 11


def test_a_partition_that_was_not_read_reaches_nothing() -> None:
    assert not Position().reaches(Position({"t": {0: 0}}))


def test_an_impossible_offset_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        Position({"t": {0: -1}})
    assert Position({"t": {0: UNKNOWN_OFFSET}}).offset("t", 0) == UNKNOWN_OFFSET


def test_an_impossible_offset_in_json_counts_as_not_read() -> None:
    assert Position.from_json(b'{"t": {"0": -1, "1": 7, "2": "x"}}').offsets == {"t": {1: 7}}


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b'{"t": 1}', b'{"t": {"x": 1}}', b'{"t": {"0": 1}'])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        Position.from_json(data)
