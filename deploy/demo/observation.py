"""What was found on the platform after the demo's input went through it: plain data, for the comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from deploy.demo.oracle import MaskedRow, Reward


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record as it lies in a topic. Headers are decoded as UTF-8."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Observation:
    """Everything that came out. Records are in topic order: by partition, then by offset."""

    shipments: list[TopicRecord] = field(default_factory=list)
    notifications: list[TopicRecord] = field(default_factory=list)
    masked: list[TopicRecord] = field(default_factory=list)
    stores: dict[str, dict[str, Reward]] = field(default_factory=dict)
    """By query node: every entry of the rewards store that it serves."""
    snapshot: dict[str, Reward] = field(default_factory=dict)
    export: list[MaskedRow] = field(default_factory=list)
    """The rows of the published export."""
    dead_letters: list[TopicRecord] = field(default_factory=list)
    input_at: dict[tuple[int, int], TopicRecord] = field(default_factory=dict)
    """The records of `pos` that dead letters claim to come from, by partition and offset."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference from what is expected."""

    check: str
    subject: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: {self.subject}: expected {self.expected}, found {self.found}"


def points_text(points: Decimal) -> str:
    """Points with their four decimals."""
    return f"{points:.4f}"
