from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidTimestampError, SerializationError, StoreCorruptedError
from storekeeper.stores.row import HEADER_BYTES, ReplicaRow, decode_row, encode_row

GOLDEN = bytes.fromhex("0101020000018bcfe568004bf742a17b7d")


def test_golden_bytes() -> None:
    row = encode_row(b"{}", schema_version=0x0102, timestamp_ms=1_700_000_000_000)
    assert row[:11] == GOLDEN[:11]
    assert row == GOLDEN
    assert decode_row(GOLDEN) == ReplicaRow(0x0102, 1_700_000_000_000, b"{}")


@given(st.binary(), st.integers(0, 0xFFFF), st.integers(-(2**63), 2**63 - 1))
def test_round_trip(value: bytes, schema_version: int, timestamp_ms: int) -> None:
    row = encode_row(value, schema_version=schema_version, timestamp_ms=timestamp_ms)
    assert len(row) == HEADER_BYTES + len(value)
    assert decode_row(row) == ReplicaRow(schema_version, timestamp_ms, value)


@given(st.binary(max_size=40), st.data())
def test_no_flipped_bit_is_served(value: bytes, data: st.DataObject) -> None:
    row = bytearray(encode_row(value, schema_version=1, timestamp_ms=5))
    bit = data.draw(st.integers(0, len(row) * 8 - 1))
    row[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreCorruptedError):
        decode_row(bytes(row))


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1])
def test_a_row_shorter_than_its_header_is_refused(length: int) -> None:
    with pytest.raises(StoreCorruptedError):
        decode_row(GOLDEN[:length])


def test_a_later_format_is_no_corruption() -> None:
    import zlib

    head = b"\x02" + GOLDEN[1:11]
    row = head + zlib.crc32(b"new", zlib.crc32(head)).to_bytes(4, "big") + b"new"
    with pytest.raises(SerializationError, match="format 2"):
        decode_row(row)


@pytest.mark.parametrize("schema_version", [-1, 65_536])
def test_schema_version_is_bounded(schema_version: int) -> None:
    with pytest.raises(SerializationError):
        encode_row(b"", schema_version=schema_version, timestamp_ms=0)


def test_timestamp_is_bounded() -> None:
    with pytest.raises(InvalidTimestampError):
        encode_row(b"", schema_version=1, timestamp_ms=2**63)
