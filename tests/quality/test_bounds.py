"""Which numbers may stand in the columns of numbers."""

from __future__ import annotations

import pytest

from quality.hadoop_export import EXPORT

TIME = EXPORT.column("CreatedTime")


@pytest.mark.parametrize(
    "time_ms", [852_076_800_000, 1_595_600_000_000]
)  # the first of the shipped purchases, and a new one
def test_times_of_old_and_new_invoices_are_times(time_ms: int) -> None:
    assert within(time_ms)


@pytest.mark.parametrize("number", [9_889_127_612, 4_111_111_111_111_111])
def test_a_phone_and_a_card_number_are_none(number: int) -> None:
    assert not within(number)


def within(number: int) -> bool:
    assert TIME is not None
    assert TIME.least is not None
    assert TIME.most is not None
    return TIME.least <= number <= TIME.most
