"""Times as people write them."""

from __future__ import annotations

import pytest

from storekeeper.cli.times import parse_time

NOW_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("now", NOW_MS),
        ("1767268800000", NOW_MS),
        ("-90s", NOW_MS - 90_000),
        ("-15m", NOW_MS - 900_000),
        ("-1h", NOW_MS - 3_600_000),
        ("-2d", NOW_MS - 172_800_000),
        ("-99999999d", 0),
        ("2026-01-01T12:00:00Z", NOW_MS),
        ("2026-01-01T12:00:00", NOW_MS),
        ("2026-01-01T13:00:00+01:00", NOW_MS),
        ("2026-01-01 12:00:00.250", NOW_MS + 250),
        ("2026-01-01 12:00:00.0006", NOW_MS),
        ("2026-01-01", NOW_MS - 43_200_000),
        ("1960-01-01", 0),
    ],
)
def test_forms(text: str, at_ms: int) -> None:
    assert parse_time(text, NOW_MS) == at_ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "1h", "-1w", "--1h", "2026", "2026-13-01", "12:00", "20260131", "١٢٣٤٥"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, NOW_MS)
