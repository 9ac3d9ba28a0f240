"""Records that somebody else wrote into a changelog: what a broker takes, and what each is found to be.

A kind with `reason` None is a row or a tombstone like any other, however odd it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson
from confluent_kafka import Producer

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.skipped import SkipReason
from tests.changelog.messages import Record

GOOD = ChangelogHeaders(1, 1, 1, {"pos": {0: (0, 100)}})
NOW_MS = 1_700_000_000_000
VALUE = b'{"n":1}'

_ABSENT = object()


@dataclass(frozen=True)
class Kind:
    """One kind of record. `broker_takes`: whether a compacted topic accepts it from this client."""

    name: str
    reason: SkipReason | None
    key: bytes | None = b""
    value: bytes | None = VALUE
    headers: tuple[tuple[str, bytes | None], ...] | None = tuple(GOOD.encode())
    timestamp_ms: int = NOW_MS
    broker_takes: bool = True

    def record(self, offset: int) -> Record:
        """The record at an offset."""
        return Record(offset, self.key, self.value, self.timestamp_ms, self.headers)


def _with(name: str, value: object) -> tuple[tuple[str, bytes | None], ...]:
    """Good headers with one of another value, or without it."""
    found = dict(GOOD.encode())
    changed = {**found, name: value}
    return tuple((header, content) for header, content in changed.items() if content is not _ABSENT)  # type: ignore[misc]


def _source(found: object) -> tuple[tuple[str, bytes | None], ...]:
    return _with("source-position", orjson.dumps(found))


_KINDS = [
    Kind("null key", SkipReason.NULL_KEY, key=None, broker_takes=False),
    Kind("null key and value", SkipReason.NULL_KEY, key=None, value=None, broker_takes=False),
    Kind("no headers", SkipReason.NO_SCHEMA_VERSION, headers=None),
    Kind("empty headers", SkipReason.NO_SCHEMA_VERSION, headers=()),
    Kind("headers of somebody else", SkipReason.NO_SCHEMA_VERSION, headers=(("traceparent", b"00-1"),)),
    Kind("no schema version", SkipReason.NO_SCHEMA_VERSION, headers=_with("schema-version", _ABSENT)),
    Kind("null schema version", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", None)),
    Kind("empty schema version", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"")),
    Kind("schema version of letters", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"one")),
    Kind("schema version 0", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"0")),
    Kind("negative schema version", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"-1")),
    Kind("schema version 65536", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"65536")),
    Kind("schema version of 5000 digits", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"9" * 5000)),
    Kind("schema version no UTF-8", SkipReason.BAD_SCHEMA_VERSION, headers=_with("schema-version", b"\xff1")),
    Kind("two schema versions", SkipReason.DUPLICATE_HEADER, headers=(*GOOD.encode(), ("schema-version", b"2"))),
    Kind("two batches", SkipReason.DUPLICATE_HEADER, headers=(*GOOD.encode(), ("batch-id", b"2"))),
    Kind("header name no ASCII", SkipReason.BAD_HEADER_NAME, headers=(*GOOD.encode(), ("schl\u00fcssel", b"1"))),
    Kind("time of letters", SkipReason.BAD_BATCH_TIME, headers=_with("batch-time", b"now")),
    Kind("time of 19 digits", SkipReason.BAD_BATCH_TIME, headers=_with("batch-time", b"1" * 19)),
    Kind("negative number of changes", SkipReason.BAD_CHANGES, headers=_with("changes", b"-1")),
    Kind("null generation", SkipReason.BAD_GENERATION, headers=_with("generation", None)),
    Kind("negative generation", SkipReason.BAD_GENERATION, headers=_with("generation", b"-1")),
    Kind("generation with a point", SkipReason.BAD_GENERATION, headers=_with("generation", b"1.5")),
    Kind("batch of 5000 digits", SkipReason.BAD_BATCH_ID, headers=_with("batch-id", b"1" * 5000)),
    Kind("batch NaN", SkipReason.BAD_BATCH_ID, headers=_with("batch-id", b"NaN")),
    Kind("batch with a blank", SkipReason.BAD_BATCH_ID, headers=_with("batch-id", b" 1")),
    Kind("source no JSON", SkipReason.BAD_SOURCE_POSITION, headers=_with("source-position", b"{")),
    Kind("source a list", SkipReason.BAD_SOURCE_POSITION, headers=_source([1])),
    Kind("source a number", SkipReason.BAD_SOURCE_POSITION, headers=_source({"pos": {"0": 7}})),
    Kind("source of three ends", SkipReason.BAD_SOURCE_POSITION, headers=_source({"pos": {"0": [1, 2, 3]}})),
    Kind("source backwards", SkipReason.BAD_SOURCE_POSITION, headers=_source({"pos": {"0": [9, 2]}})),
    Kind("source negative", SkipReason.BAD_SOURCE_POSITION, headers=_source({"pos": {"0": [-1, 2]}})),
    Kind("source of booleans", SkipReason.BAD_SOURCE_POSITION, headers=_source({"pos": {"0": [False, True]}})),
    Kind(
        "source beyond 64 bits",
        SkipReason.BAD_SOURCE_POSITION,
        headers=_with("source-position", b'{"pos":{"0":[0,99999999999999999999]}}'),
    ),
    Kind("source NaN", SkipReason.BAD_SOURCE_POSITION, headers=_with("source-position", b'{"pos":{"0":[0,NaN]}}')),
    Kind("source nested deeply", SkipReason.BAD_SOURCE_POSITION, headers=_with("source-position", b"[" * 50_000)),
    Kind(
        "source partition of 5000 digits",
        SkipReason.BAD_SOURCE_POSITION,
        headers=_source({"pos": {"1" * 5000: [0, 1]}}),
    ),
    Kind("source oversized", SkipReason.BAD_SOURCE_POSITION, headers=_with("source-position", b" " * 300_000 + b"{}")),
    Kind("no timestamp", SkipReason.BAD_TIMESTAMP, timestamp_ms=-1),
    Kind("year 300000", SkipReason.BAD_TIMESTAMP, timestamp_ms=9_404_000_000_000_000, broker_takes=False),
    Kind("timestamp of 63 bits", SkipReason.BAD_TIMESTAMP, timestamp_ms=2**63 - 1, broker_takes=False),
    # Odd, and rows all the same.
    Kind("schema version alone", None, headers=(("schema-version", b"1"),)),
    Kind("another generation", None, headers=tuple(replace(GOOD, generation=9).encode())),
    Kind("time far ahead", None, headers=tuple(replace(GOOD, batch_ms=10**17).encode())),
    Kind("many changes", None, headers=(*GOOD.encode(), ("changes", b"9" * 18))),
    Kind("batch far ahead", None, headers=tuple(replace(GOOD, batch_id=10**17).encode())),
    Kind("two headers of somebody else", None, headers=(*GOOD.encode(), ("trace", b"1"), ("trace", None))),
    Kind("empty value", None, value=b""),
    Kind("value no JSON", None, value=b"\xff\x00{"),
    Kind("value nested deeply", None, value=b'{"n":' + b"[" * 5000),
    Kind("value of 5000 digits", None, value=b'{"n":' + b"9" * 5000 + b"}"),
    Kind("tombstone without headers", None, value=None, headers=None),
    Kind("tombstone with a bad header", None, value=None, headers=(("schema-version", b"x"),)),
    Kind("tombstone without timestamp", None, value=None, timestamp_ms=-1),
]

KINDS = [kind if kind.key is None else replace(kind, key=kind.name.encode()) for kind in _KINDS]
"""Every kind; those with a key have their name as key."""
SKIPPED = [kind for kind in KINDS if kind.reason is not None]
ROWS = {kind.key: kind.value for kind in KINDS if kind.reason is None and kind.value is not None}


def write_kinds(bootstrap: str, topic: str, kinds: Sequence[Kind]) -> None:
    """Writes a record of each kind, in order."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for kind in kinds:
        producer.produce(
            topic,
            kind.value,
            kind.key,
            headers=None if kind.headers is None else list(kind.headers),
            timestamp=kind.timestamp_ms,
            on_delivery=lambda error, _: None if error is None else failed.append(str(error)),
        )
    producer.flush(30)
    assert failed == []
