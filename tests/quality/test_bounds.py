"""Which numbers may stand in the columns of numbers."""

from __future__ import annotations

import pytest

from quality.export_suite import _BOUNDS


@pytest.mark.parametrize(
    "time_ms", [852_076_800_000, 1_595_600_000_000]
)  # the first of the shipped purchases, and a new one
def test_times_of_old_and_new_invoices_are_times(time_ms: int) -> None:
    least, most = _BOUNDS["CreatedTime"]
    assert least <= time_ms <= most


@pytest.mark.parametrize("number", [9_889_127_612, 4_111_111_111_111_111])
def test_a_phone_and_a_card_number_are_none(number: int) -> None:
    least, most = _BOUNDS["CreatedTime"]
    assert not least <= number <= most
