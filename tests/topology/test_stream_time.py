from __future__ import annotations

import pytest

from storekeeper.errors import InvalidTimestampError
from storekeeper.topology.times import UNKNOWN_MS, StreamTime


def test_stream_time_never_goes_back() -> None:
    time = StreamTime()
    assert time.now_ms == UNKNOWN_MS
    assert [time.observe(t) for t in (0, 7, 3, 7, 8)] == [0, 7, 7, 7, 8]


def test_stream_time_continues_after_a_restore() -> None:
    time = StreamTime(restored_ms=100)
    assert time.observe(5) == 100


def test_a_negative_timestamp_changes_nothing() -> None:
    time = StreamTime(restored_ms=100)
    with pytest.raises(InvalidTimestampError):
        time.observe(-1)
    assert time.now_ms == 100
