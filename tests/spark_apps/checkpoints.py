"""Checkpoint folders as Spark writes them, for tests."""

from __future__ import annotations

from pathlib import Path

import orjson

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795254209671,"conf":{}}'


def write_checkpoint(
    path: Path, batches: list[dict[str, dict[str, int]]], *, committed: int, initial: dict[str, dict[str, int]] | None
) -> None:
    """A checkpoint whose batches end at the given offsets; the first `committed` of them are finished."""
    for folder in ("offsets", "commits", "sources/0"):
        (path / folder).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11"}')
    if initial is not None:
        (path / "sources/0/0").write_bytes(b"\0v1\n" + orjson.dumps(initial))
    for number, end in enumerate(batches):
        (path / "offsets" / str(number)).write_text(f"v1\n{METADATA}\n{orjson.dumps(end).decode()}")
        (path / "offsets" / f".{number}.crc").write_bytes(b"crc")
        if number < committed:
            (path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
