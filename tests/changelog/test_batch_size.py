"""A read brings no more bytes than it may, whatever the length of the values."""

from __future__ import annotations

import pytest

from storekeeper.changelog.reader import ReaderSettings, next_batch_records
from storekeeper.kafka.connection import Kafka

SETTINGS = ReaderSettings(Kafka("nowhere:9092"), max_batch_records=500_000, max_batch_bytes=64 << 20)


@pytest.mark.parametrize(("value_bytes", "records"), [(0, 335_544), (100, 223_696), (1 << 20, 100), (1 << 24, 100)])
def test_long_values_make_small_batches(value_bytes: int, records: int) -> None:
    assert next_batch_records([value_bytes] * 3, SETTINGS) == records


def test_the_count_is_a_bound_too() -> None:
    assert next_batch_records([0, 0], ReaderSettings(Kafka("nowhere:9092"), max_batch_records=20_000)) == 20_000


def test_the_mean_counts_and_not_the_longest() -> None:
    assert next_batch_records([0, 10_000], SETTINGS) == next_batch_records([5_000], SETTINGS)
