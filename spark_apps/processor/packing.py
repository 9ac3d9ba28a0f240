"""Many records in one row: Spark hands rows to a stateful Python function one by one, which is dear."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from spark_apps.processor.records import OutputRecord, SourceRecord

pack = msgspec.msgpack.Encoder().encode
"""The bytes of a list of records."""

unpack_sources = msgspec.msgpack.Decoder(list[SourceRecord]).decode
"""The source records in such bytes."""

unpack_outputs = msgspec.msgpack.Decoder(list[OutputRecord]).decode
"""The output records in such bytes."""

PACKED_RECORDS = 5000
"""So many records at most in one row: a row must stay far below the two gigabytes that bytes may have."""


def packed(records: Iterable[tuple[object, ...]], size: int = PACKED_RECORDS) -> list[bytes]:
    """Records in their order as rows of at most `size`."""
    listed = list(records)
    return [pack(listed[at : at + size]) for at in range(0, len(listed), size)]
