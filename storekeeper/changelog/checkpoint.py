"""The checkpoint of a replica: how far its rows follow the changelog.

It lives in the store's own metadata and is written in the same atomic step as the rows it stands for, so the two
can't disagree after a crash. As JSON:

    {"version": 1, "topic": "pos-rewards-changelog", "topic_id": "…", "partition": 0,
     "offset": 1200, "whole_at_ms": 1700000000000, "source": {"pos": {"0": [100, 200]}},
     "skipped": {"null-key": 2}, "last_skipped": 1140}

`source`, `skipped` and `last_skipped` are left out if they are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson

from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.skipped import SkippedRecord, SkippedTotals
from storekeeper.errors import InvalidArgumentError, StoreCorruptedError

METADATA_KEY = b"changelog-checkpoint"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where one store partition stands in its changelog.

    Attributes:
        topic: the changelog topic.
        topic_id: the broker's id of it, which changes when the topic is recreated.
        partition: the partition of both the topic and the store.
        offset: the next offset to apply: all below it is in the rows.
        whole_at_ms: when the rows last equalled the whole log, epoch milliseconds; for a restore that has never
            reached the end of the log: when it began. Deletions since then may be removed from the log for good once
            the topic's `delete.retention.ms` has passed.
        source: by source topic and partition the newest input range, end exclusive, of the records below `offset`.
        skipped: the records below `offset` that were not rows, of those that the log had when they were read.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    whole_at_ms: int
    source: SourceRanges = field(default_factory=dict)
    skipped: SkippedTotals = field(default_factory=SkippedTotals)

    def __post_init__(self) -> None:
        if self.offset < 0:
            msg = f"{self.topic}-{self.partition} can't be at offset {self.offset}: offsets begin at 0"
            raise InvalidArgumentError(msg)

    def moved(
        self,
        offset: int,
        whole_at_ms: int | None = None,
        source: SourceRanges | None = None,
        skipped: Sequence[SkippedRecord] = (),
    ) -> Checkpoint:
        """The checkpoint after applying up to `offset`, exclusive.

        Args:
            offset: the next offset to apply.
            whole_at_ms: now, if that is the end of the log.
            source: the input range of the newest record that was applied, None if it has none.
            skipped: the records that were not rows; those below this checkpoint are counted already.
        """
        return replace(
            self,
            offset=offset,
            whole_at_ms=self.whole_at_ms if whole_at_ms is None else whole_at_ms,
            source=_merged(self.source, source),
            skipped=self.skipped.plus([record for record in skipped if record.offset >= self.offset]),
        )

    def encode(self) -> bytes:
        """The JSON form."""
        fields: dict[str, object] = {
            "version": _VERSION,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partition": self.partition,
            "offset": self.offset,
            "whole_at_ms": self.whole_at_ms,
        }
        if self.source:
            fields["source"] = self.source
        if self.skipped.records:
            fields |= {"skipped": self.skipped.by_reason, "last_skipped": self.skipped.last_offset}
        return orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Reads the JSON form.

        Raises:
            StoreCorruptedError: if it is not one, or of a later version: the rows can't be trusted without it.
        """
        try:
            fields = orjson.loads(data)
            if fields.pop("version") != _VERSION:
                msg = "the store was written by a later release: upgrade this node or let it restore again"
                raise StoreCorruptedError(msg)
            return cls(
                topic=str(fields["topic"]),
                topic_id=str(fields["topic_id"]),
                partition=int(fields["partition"]),
                offset=int(fields["offset"]),
                whole_at_ms=int(fields["whole_at_ms"]),
                source=_source(fields.get("source", {})),
                skipped=_skipped(fields.get("skipped", {}), fields.get("last_skipped")),
            )
        except (ValueError, TypeError, KeyError, AttributeError, InvalidArgumentError) as error:
            msg = f"unreadable changelog checkpoint in the store's metadata: {data[:80]!r}"
            raise StoreCorruptedError(msg) from error


def _merged(mine: SourceRanges, newer: SourceRanges | None) -> SourceRanges:
    if not newer:
        return mine
    return {**mine, **{topic: {**mine.get(topic, {}), **partitions} for topic, partitions in newer.items()}}


def _source(topics: dict[str, Any]) -> SourceRanges:
    return {
        str(topic): {int(partition): (int(start), int(end)) for partition, (start, end) in partitions.items()}
        for topic, partitions in topics.items()
    }


def _skipped(counts: dict[str, Any], last_offset: Any) -> SkippedTotals:
    by_reason = {str(reason): int(count) for reason, count in counts.items()}
    return SkippedTotals(by_reason, int(last_offset) if by_reason else None)
