"""The records that a task writes, and which of them a topic accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from storekeeper.engine.dead_letters import own_headers, reason_headers
from storekeeper.stores.record_context import Header

BY_KEY = -1
"""The partition of a record whose key decides where it goes."""
FOREVER_MS = (1 << 63) - 1
REFUSED = "RefusedRecordError"
"""The class of the error of a record that its topic would refuse."""

Headers: TypeAlias = "list[Header] | None"

SinkRecord: TypeAlias = "tuple[str, bytes | None, bytes | None, Headers, int]"
"""Topic, key, value (None is a tombstone), headers, partition or `BY_KEY`. A plain tuple: there are millions."""

# A generous estimate of what a record batch and a record add to keys, values and headers.
_OVERHEAD_BYTES = 128
_REASON_HEADERS = 4


@dataclass(frozen=True, slots=True)
class TopicRule:
    """What a topic accepts. A compacted topic requires keys (`keys_required`). `max_ahead_ms` is how far the time of a
    record may be ahead of the broker's clock.
    """

    max_record_bytes: int
    keys_required: bool = False
    max_ahead_ms: int = FOREVER_MS

    def refusal(self, record: SinkRecord) -> str | None:
        """Why the broker would refuse a record; None if it would accept it."""
        _, key, value, headers, _ = record
        size = _OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        if headers:
            size += sum(len(name) + len(content or b"") + 8 for name, content in headers)
        if size > self.max_record_bytes:
            return f"the record of about {size} bytes is larger than the {self.max_record_bytes} that its topic takes"
        if self.keys_required and key is None:
            return "the record has no key, and its topic is compacted"
        return None


def dead_letter(record: SinkRecord, reason: str, *, app: str, topic: str, rule: TopicRule | None) -> SinkRecord:
    """The dead letter, for topic `topic`, of a record that its own topic would refuse.

    If topic `topic` would refuse it too, its value and its own headers are left out, and its key is cut to 1024 bytes.
    """
    wanted, key, value, own, _ = record
    headers = reason_headers(app, wanted, REFUSED, reason)
    headers += own_headers(own or ())
    whole: SinkRecord = topic, key, value, headers, BY_KEY
    if rule is None or rule.refusal(whole) is None:
        return whole
    return topic, (key or b"")[:1024], None, headers[:_REASON_HEADERS], BY_KEY
