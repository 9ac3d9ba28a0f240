"""`kill -9` while a process writes: afterwards there is a prefix of what it wrote, position and rows together."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from storekeeper.stores.rocksdb import open_rocksdb
from tests.faults.writer_process import batch


def test_a_killed_writer_leaves_a_prefix(tmp_path: Path, long_run: bool) -> None:
    chance = random.Random(9)
    expected: dict[bytes, bytes] = {}
    reached = 0
    for _ in range(100 if long_run else 8):
        acknowledged = killed_after(tmp_path / "store", chance.randrange(1, 120))
        store = open_rocksdb(tmp_path / "store", "killed")
        position = int(store.metadata(b"position") or b"0")
        assert position >= acknowledged > reached
        for past in range(reached + 1, position + 1):
            for key, value in batch(past):
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
        reached = position
        with store.scan(None, None) as rows:
            assert dict(rows) == expected
        store.close()


def killed_after(path: Path, writes: int) -> int:
    """Starts a writer, kills it while it goes on after `writes` batches, and returns the last position that it told."""
    command = [sys.executable, "-m", "tests.faults.writer_process", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(writes)]
        writer.kill()
        # Lines behind the kill are whole or cut; only whole ones were said.
        rest = writer.stdout.read()
        writer.wait()
    lines = ("".join(told) + rest).splitlines(keepends=True)
    return int([line for line in lines if line.endswith("\n")][-1])
