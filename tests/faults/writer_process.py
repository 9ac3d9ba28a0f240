"""A process to be killed: writes batches for as long as it lives and says after each which position it reached."""

from __future__ import annotations

import sys
from pathlib import Path

from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions

KEYS = 200


def batch(position: int) -> list[tuple[bytes, bytes | None]]:
    """The rows that the batch at a position writes: all different for every position."""
    numbers = ((position * 31 + offset * 7) % KEYS for offset in range(20))
    return [
        (b"%06d" % number, None if (position + number) % 11 == 0 else b"%d:%d" % (position, number) + b"x" * 500)
        for number in numbers
    ]


def main() -> None:
    """Goes on from the position that is in the store."""
    options = RocksDBOptions(profile=Profile.MEMORY_CONSTRAINED)
    store = open_rocksdb(Path(sys.argv[1]), "killed", options)
    position = int(store.metadata(b"position") or b"0")
    while True:
        position += 1
        store.write(batch(position), {b"position": b"%d" % position})
        if position % 50 == 0:
            store.flush()
        sys.stdout.write(f"{position}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
