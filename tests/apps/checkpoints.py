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
    """A checkpoint whose batches end at the given offsets; the first `committed` of them are finished."""
    checkpoint = BatchCheckpoint(path)
    checkpoint.begin("d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11")
    if initial is not None:
        checkpoint.begin_at(Position.from_json(orjson.dumps(initial)))
    for number, end in enumerate(batches):
        checkpoint.plan(number, Position.from_json(orjson.dumps(end)), 1_000 * (number + 1))
        if number < committed:
            checkpoint.commit(number)
