"""Rows of answers as the client reads them."""

from __future__ import annotations

import json

import pytest

from storekeeper.client.queries import windowed_row_of
from storekeeper.client.readings import WindowedRow
from storekeeper.node.query.answers.json_rows import TimedKey, timed_row_json


@pytest.mark.parametrize("start_ms", [0, 12_000, 99_999_999_000, 946_684_800_000, 1_767_268_800_000])
@pytest.mark.parametrize("key", [b"\xff", b"\xff\x00", b"\xff\x00\x01", bytes.fromhex("65f1a2b3c4d5e6f708192a3b")])
def test_a_window_has_its_key_if_that_is_not_text(key: bytes, start_ms: int) -> None:
    row = json.loads(timed_row_json(TimedKey(key, start_ms), b"1"))
    assert windowed_row_of(row) == WindowedRow(key, start_ms, 1)


@pytest.mark.parametrize("key", ["s1", "käse@5", "s1@5@5"])
def test_a_window_has_its_key_if_that_is_text(key: str) -> None:
    row = json.loads(timed_row_json(TimedKey(key.encode(), 5), b"1"))
    assert windowed_row_of(row) == WindowedRow(key, 5, 1)
