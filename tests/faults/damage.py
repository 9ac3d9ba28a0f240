"""A store to damage, and one way to damage it at a time."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from storekeeper.errors import StoreCorruptedError
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import RocksDBStore, open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions

OPTIONS = RocksDBOptions(profile=Profile.MEMORY_CONSTRAINED)


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage.

    Attributes:
        file: the damaged file's name.
        kind: flip, truncate or delete.
        position: which bit, or which length.
    """

    file: str
    kind: str
    position: int


States = dict[bytes, dict[bytes, bytes]]
"""By position, as stored with the rows: the rows that belong to it."""


def build_store(path: Path, *, crashed: Path | None = None) -> States:
    """Makes a closed store with several table files, a log with rows in it, overwrites and deletions.

    Args:
        path: where.
        crashed: where to put a copy as a killed process leaves it: marked durable at position 3, written up to 5.

    Returns:
        What each position's rows are.
    """
    rows: dict[bytes, bytes] = {}
    states: States = {}
    store = open_rocksdb(path, "damaged", OPTIONS)
    for batch in range(6):
        position = b"%d" % batch
        entries: list[tuple[bytes, bytes | None]] = []
        for number in range(batch * 100, batch * 100 + 300):
            text = b"%d-%d-" % (batch, number) + b"v" * (number % 50)
            entries.append((b"key-%06d" % number, text if number % 7 else None))
        store.write(entries, {b"position": position})
        rows = {**rows, **{key: value for key, value in entries if value is not None}}
        for key, value in entries:
            if value is None:
                rows.pop(key, None)
        states[position] = rows
        if batch in {1, 3}:
            store._database.flush()
            store.flush()
    if crashed is not None:
        shutil.copytree(path, crashed)
    store.close()
    return states


def random_damage(path: Path, chance: random.Random) -> Damage:
    """Damages one file of a closed store: mostly a flipped bit, sometimes a cut, now and then a deletion."""
    files = sorted(file for file in path.iterdir() if file.is_file() and file.stat().st_size)
    file = chance.choice(files)
    size = file.stat().st_size
    kind = chance.choices(["flip", "truncate", "delete"], [6, 3, 1])[0]
    position = 0
    if kind == "flip":
        position = chance.randrange(size * 8)
        data = bytearray(file.read_bytes())
        data[position // 8] ^= 1 << position % 8
        file.write_bytes(data)
    elif kind == "truncate":
        position = chance.randrange(size)
        with file.open("r+b") as handle:
            handle.truncate(position)
    else:
        file.unlink()
    return Damage(file.name, kind, position)


def wrong_answers(path: Path, states: States, positions: tuple[bytes, ...]) -> tuple[bool, list[str]]:
    """Whether the damage was detected, and what a reader got that is not one of the states at `positions`."""
    try:
        store = open_rocksdb(path, "damaged", OPTIONS)
    except StoreCorruptedError:
        return True, []
    detected, wrong = False, []
    try:
        position = store.metadata(b"position")
        if position not in positions:
            return False, [f"the position is {position!r}, none of {positions}"]
        for check in (_check_gets, _check_scan):
            try:
                wrong += check(store, states[position])
            except StoreCorruptedError:
                detected = True
    except StoreCorruptedError:
        detected = True
    finally:
        store.close()
    return detected, wrong


def _check_gets(store: RocksDBStore, rows: dict[bytes, bytes]) -> list[str]:
    wrong = []
    for number in range(850):
        key = b"key-%06d" % number
        value = store.get(key)
        if value != rows.get(key):
            wrong.append(f"get {key!r} gave {value!r}, not {rows.get(key)!r}")
    return wrong


def _check_scan(store: RocksDBStore, rows: dict[bytes, bytes]) -> list[str]:
    with store.scan(None, None) as scan:
        found = dict(scan)
    return [] if found == rows else [f"a scan gave {len(found)} rows, not the {len(rows)} that are there"]
