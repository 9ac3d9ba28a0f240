"""The checkpoint in a store's metadata."""

from __future__ import annotations

import pytest

from storekeeper.changelog.checkpoint import Checkpoint
from storekeeper.errors import InvalidArgumentError, StoreCorruptedError

CHECKPOINT = Checkpoint("t", "id", 3, 1200, 1_700_000_000_000)


def test_golden_bytes() -> None:
    assert CHECKPOINT.encode() == (
        b'{"version":1,"topic":"t","topic_id":"id","partition":3,"offset":1200,"whole_at_ms":1700000000000}'
    )
    assert Checkpoint.decode(CHECKPOINT.encode()) == CHECKPOINT


def test_every_truncation_is_noticed() -> None:
    encoded = CHECKPOINT.encode()
    for length in range(len(encoded)):
        with pytest.raises(StoreCorruptedError):
            Checkpoint.decode(encoded[:length])


@pytest.mark.parametrize("data", [b"{}", b"[]", b"null", b"\xff", CHECKPOINT.encode().replace(b"1200", b"-1")])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(StoreCorruptedError):
        Checkpoint.decode(data)


def test_a_later_version_is_refused_with_advice() -> None:
    with pytest.raises(StoreCorruptedError, match="later release"):
        Checkpoint.decode(CHECKPOINT.encode().replace(b'"version":1', b'"version":2'))


def test_moving_keeps_the_time_unless_the_end_was_reached() -> None:
    assert CHECKPOINT.moved(1300) == Checkpoint("t", "id", 3, 1300, 1_700_000_000_000)
    assert CHECKPOINT.moved(1300, 5).whole_at_ms == 5


def test_an_impossible_offset_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        CHECKPOINT.moved(-1)
