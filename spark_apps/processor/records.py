"""Records as a processor takes and gives them."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes], ...]


class SourceRecord(NamedTuple):
    """A record of a source topic.

    A named tuple because a frozen dataclass takes three times as long to make, and there are millions.
    `timestamp_ms` is the record's own timestamp, epoch milliseconds; an event's time is in its value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class OutputRecord(NamedTuple):
    """A record to be written.

    `value` None is a tombstone. `partition` None leaves the partition to murmur2 of the key. `headers` are empty for
    records of changelogs: theirs are the same for a whole batch, and are added where it is written. `topic` None is
    no record: without a key it counts one that was skipped, with `STREAM_TIME_KEY` it tells the task's stream time.
    """

    topic: str | None
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Headers = ()


SKIPPED = OutputRecord(None, None, None)
"""Stands for a poison record whose dead letter another app writes."""

STREAM_TIME_KEY = b"stream time"


def told_time(stream_time_ms: int) -> OutputRecord:
    """Stands for a task's stream time, epoch milliseconds, so that the app can show it."""
    return OutputRecord(None, STREAM_TIME_KEY, b"%d" % stream_time_ms)


def dead_letter(topic: str, record: SourceRecord, app: str, error: Exception) -> OutputRecord:
    """The dead letter of a record: its bytes unchanged, and the headers that `spark_apps.dead_letters` lists."""
    told: dict[str, object] = {
        "dlq.topic": record.topic,
        "dlq.partition": record.partition,
        "dlq.offset": record.offset,
        "dlq.timestamp": record.timestamp_ms,
        "dlq.app": app,
        "dlq.error.class": type(error).__name__,
        "dlq.error.message": error,
    }
    headers = tuple((name, str(value).encode()) for name, value in told.items())
    return OutputRecord(topic, record.key, record.value, None, headers)
