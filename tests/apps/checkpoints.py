"""Checkpoint folders as Spark writes them, for tests."""

from __future__ import annotations

import orjson

from storekeeper.locations import Location, write_in_one_step

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795254209671,"conf":{}}'


def write_checkpoint(
    path: Location,
    batches: list[dict[str, dict[str, int]]],
    *,
    committed: int,
    initial: dict[str, dict[str, int]] | None,
) -> None:
    """A checkpoint whose batches end at the given offsets; the first `committed` of them are finished."""
    write_in_one_step(path / "metadata", b'{"id":"d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11"}')
    if initial is not None:
        write_in_one_step(path / "sources" / "0" / "0", b"\0v1\n" + orjson.dumps(initial))
    for number, end in enumerate(batches):
        write_in_one_step(path / "offsets" / str(number), b"\n".join([b"v1", METADATA.encode(), orjson.dumps(end)]))
        write_in_one_step(path / "offsets" / f".{number}.crc", b"crc")
        if number < committed:
            write_in_one_step(path / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')
