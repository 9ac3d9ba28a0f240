"""Checkpoint folders, for tests."""

from __future__ import annotations

import orjson

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.locations import Location


def write_checkpoint(
    path: Location,
    batches: list[dict[str, dict[str, int]]],
    *,
    committed: int,
    initial: dict[str, dict[str, int]] | None,
) -> None:
    """A checkpoint whose batches end at the given offsets; the first `committed` of them are finished.

    New partitions begin where `initial` says, or at 0.
    """
    checkpoint = BatchCheckpoint(path)
    checkpoint.begin("d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11")
    begun = Position.from_json(orjson.dumps(initial or {}))
    if initial is not None:
        checkpoint.begin_at(begun)
    for number, offsets in enumerate(batches):
        end = Position.from_json(orjson.dumps(offsets))
        places: dict[str, dict[int, int]] = {topic: {} for topic in end.offsets}
        for topic, partition, _ in end:
            places[topic][partition] = begun.offset(topic, partition) or 0
        checkpoint.plan(number, Position(places), end, 1_000 * (number + 1))
        begun = begun.merged(end)
        if number < committed:
            checkpoint.commit(number)
