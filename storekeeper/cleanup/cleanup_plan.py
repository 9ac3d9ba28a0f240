"""The plan of a clean-up, made by its preview: a JSON file that a person can read before approving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import msgspec
import orjson

from storekeeper.cleanup.expiry import AgeClass
from storekeeper.errors import InvalidArgumentError, SerializationError

SAMPLE_ROWS = 20


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """What the caller decides.

    Attributes:
        ttl_ms: rows whose newest record is older than this are expired.
        canary_share: this share of them is deleted first, 0 to 1; 0 is without a canary.
        max_came_back_share: if more of the canary than this was written by its app again, the rest isn't deleted.
        tombstones_per_s: the rate limit.
        undo_ms: for how long the clean-up can be undone; the topic's `delete.retention.ms` is the limit.
    """

    ttl_ms: int
    canary_share: float = 0.01
    max_came_back_share: float = 0.02
    tombstones_per_s: float = 2000.0
    undo_ms: int = 7 * 86_400_000

    def __post_init__(self) -> None:
        if self.ttl_ms < 1 or self.undo_ms < 0 or not 0 < self.tombstones_per_s < math.inf:
            raise InvalidArgumentError("ttl and rate must be numbers above 0, the time to undo must not be negative")
        if not (0 <= self.canary_share <= 1 and 0 <= self.max_came_back_share <= 1):
            raise InvalidArgumentError("a share is a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """A clean-up of one store.

    Attributes:
        cleanup_id: names the clean-up, and its folder.
        store, topic, topic_id: which store; the broker's topic id reveals a recreated topic.
        options: what the caller decided.
        created_ms: when, epoch milliseconds.
        cutoff_ms: rows whose newest record is older are expired.
        ends: by partition the end offset that the preview read up to: later records are "since".
        rows, size_bytes: all of the store.
        expired_rows, expired_bytes: those to be deleted.
        ages: histogram of all rows.
        sample: some of the expired rows, keys masked, as `partition@offset key`.
        undo_ms: how long after its archive was begun it can be undone: `options.undo_ms`, or the topic's
            `delete.retention.ms` if that is shorter.
    """

    cleanup_id: str
    store: str
    topic: str
    topic_id: str
    options: CleanupOptions
    created_ms: int
    cutoff_ms: int
    ends: Mapping[int, int]
    rows: int
    size_bytes: int
    expired_rows: int
    expired_bytes: int
    ages: tuple[AgeClass, ...]
    sample: tuple[str, ...]
    undo_ms: int

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON's own types."""
        return {**asdict(self), "ends": {str(partition): end for partition, end in self.ends.items()}}

    def to_json(self) -> bytes:
        """The plan as JSON."""
        return orjson.dumps(self.as_dict(), option=orjson.OPT_INDENT_2)

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Reads it again.

        Raises:
            SerializationError: it is not a plan.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            msg = "this is not a plan of a clean-up: make one with `storekeeper cleanup preview`"
            raise SerializationError(msg) from error

    def as_text(self) -> str:
        """The plan in Markdown, for the person who approves it."""
        lines = [
            (
                f"Store **{self.store}**: {self.expired_rows:,} of {self.rows:,} rows are older than "
                f"{self.options.ttl_ms / 86_400_000:g} days ({self.expired_bytes:,} of {self.size_bytes:,} bytes)."
            ),
            "",
            "| age below | rows | bytes |",
            "|---|---|---|",
            *(
                f"| {'any' if age.below_days is None else f'{age.below_days} days'} | {age.rows:,} "
                f"| {age.size_bytes:,} |"
                for age in self.ages
            ),
            "",
            (
                f"First {self.options.canary_share:.2%} as canary, at most {self.options.tombstones_per_s:g} a second."
                " Rows that the app writes meanwhile stay."
                f" It can be undone for {self.undo_ms / 86_400_000:g} days."
            ),
            "",
            "Some of them: " + ("; ".join(self.sample) or "none"),
        ]
        return "\n".join(lines)
