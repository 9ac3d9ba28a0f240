"""What logs and reports show of keys."""

from __future__ import annotations

import pytest

from storekeeper.masked_keys import masked_key, masked_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/state/keyvalue/rewards/4629185225", "/state/keyvalue/rewards/…"),
        ("/state/windowed/sales/4629185225/17/18", "/state/windowed/sales/…"),
        ("/state/keyvalues/rewards", "/state/keyvalues/rewards"),
        ("/readyz", "/readyz"),
    ],
)
def test_a_path_is_shown_without_its_keys(path: str, shown: str) -> None:
    assert masked_path(path) == shown


def test_of_a_long_key_the_end_is_shown_and_of_a_short_one_the_length() -> None:
    assert masked_key(b"4629185225") == "••••••••25 (10 bytes)"
    assert masked_key(b"a") == "• (1 bytes)"
