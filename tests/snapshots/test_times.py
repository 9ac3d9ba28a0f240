"""Times of look-ups in versioned stores, as callers write them."""

from __future__ import annotations

import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.snapshots.as_of import time_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("0", 0),
        ("1234567", 1_234_567),
        ("020260131", 20_260_131),
        ("1767268800000", 1_767_268_800_000),
        ("9223372036854775807", (1 << 63) - 1),
        ("2026-01-01T12:00:00Z", 1_767_268_800_000),
        ("2026-01-01T12:00:00", 1_767_268_800_000),
        ("2026-01-01T13:00:00.250+01:00", 1_767_268_800_250),
        ("2026-01-01", 1_767_225_600_000),
    ],
)
def test_forms(text: str, at_ms: int) -> None:
    assert time_ms(text) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "-1",
        "9223372036854775808",
        "1" * 20,
        "1.5",
        "20260131",
        "10000000",
        "1960-01-01",
        "2026-13-01",
        "2026-01-01T13:00 01:00",
        "١٢٣",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="as_of is epoch milliseconds or a time like"):
        time_ms(text)
