"""Kafka's partitioner, checked against what Kafka's own Java code gives."""

from __future__ import annotations

import pytest

from storekeeper.changelog.partitioner import murmur2, partition_for
from storekeeper.errors import InvalidArgumentError, NullKeyError

# key, Utils.murmur2(key), partition of 4, partition of 7; from kafka-clients 4.2.0
GOLDEN = [
    ("", 275646681, 1, 2),
    ("a", -1563381124, 0, 5),
    ("ab", 316155434, 2, 0),
    ("abc", 479470107, 3, 4),
    ("abcd", -1323649548, 0, 5),
    ("abcde", 461995741, 1, 4),
    ("21", -973932308, 0, 3),
    ("foobar", -790332482, 2, 0),
    ("a-little-bit-long-string", -985981536, 0, 1),
    ("a-little-bit-longer-string", -1486304829, 3, 0),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 1, 3),
    ("käse", -1070276755, 1, 0),
    ("顧客", 770610258, 2, 5),
    ("4629185211", -1769063564, 0, 0),
]


@pytest.mark.parametrize(("key", "signed_hash", "of_four", "of_seven"), GOLDEN)
def test_gives_what_kafkas_java_client_gives(key: str, signed_hash: int, of_four: int, of_seven: int) -> None:
    data = key.encode()
    assert murmur2(data) == signed_hash & 0xFFFFFFFF
    assert partition_for(data, 4) == of_four
    assert partition_for(data, 7) == of_seven


def test_reads_bytes_as_unsigned() -> None:
    assert murmur2(bytes([0xFF, 0x00, 0x80, 0x7F, 0xFE])) == 1118688894


def test_a_record_without_key_has_no_partition() -> None:
    with pytest.raises(NullKeyError):
        partition_for(None, 4)  # type: ignore[arg-type]


def test_there_is_at_least_one_partition() -> None:
    with pytest.raises(InvalidArgumentError):
        partition_for(b"k", 0)
