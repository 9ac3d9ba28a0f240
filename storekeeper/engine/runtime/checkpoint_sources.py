"""The sources of a query in its checkpoint: one line for each in a batch's plan. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import NO_OFFSETS, SparkCheckpoint
from storekeeper.locations import write_in_one_step


def add_sources(checkpoint: SparkCheckpoint, count: int) -> None:
    """Lets a stopped query go on with more sources than it had; the new ones are the last. Safe to repeat.

    Spark refuses a query whose last plans have another number of sources. An app gets a second source with its first
    repartition topic.
    """
    last = checkpoint.last_planned_batch()
    if last is None:
        return
    folder = checkpoint.path / "offsets"
    # A batch begins where the one before it ended: that plan is read as well.
    for batch_id in (batch_id for batch_id in (last - 1, last) if checkpoint.plans(batch_id)):
        place = folder / str(batch_id)
        lines = place.read_bytes().decode().splitlines()
        missing = 2 + count - len(lines)
        if missing > 0:
            (folder / f".{batch_id}.crc").unlink(missing_ok=True)
            write_in_one_step(place, "\n".join([*lines, *[NO_OFFSETS] * missing]).encode())


def plan_of(like: str, ends: Iterable[Position]) -> str:
    """A plan that ends at the given positions, one for each source, with the settings of another plan."""
    version, settings, *_ = like.splitlines()
    return "\n".join([version, settings, *(end.to_json().decode() for end in ends)])


def with_end(plan: str, end: Position) -> str:
    """A plan with the offsets of its Kafka sources replaced: each gets those of its topics. Other sources stay.

    A topic of `end` must be in a source of the plan: nothing says which source reads it otherwise.
    """
    version, settings, *sources = plan.splitlines()
    return "\n".join([version, settings, *(_with_end(source, end) for source in sources)])


def _with_end(source: str, end: Position) -> str:
    offsets = None if source == NO_OFFSETS else orjson.loads(source)
    if not isinstance(offsets, dict) or end.offsets.keys().isdisjoint(offsets):
        return source
    return Position({topic: ends for topic, ends in end.offsets.items() if topic in offsets}).to_json().decode()
