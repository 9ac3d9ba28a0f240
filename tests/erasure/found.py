"""Looking for the bytes of a key in all files and topics, whatever compresses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from storekeeper.changelog.bounded_reader import partitions_of, read_range, stable_bounds
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.erasure.search import Searched
from storekeeper.kafka.connection import Kafka
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.store_definitions import ServedKind


def files_with(key: str, root: Path) -> Iterator[str]:
    """The files below a folder that have the bytes, by their paths in it, and the stores that have such rows.

    Nobody has the stores open.
    """
    keys, searched = _keys(key), Searched()
    searched.read_files(root, keys)
    yield from (one["file"].removeprefix(f"{root}/") for one in searched.found)
    for current in root.rglob("CURRENT"):
        opener = open_sealed if "tasks" in current.parts else open_rocksdb
        store = opener(current.parent, current.parent.name)
        if any(_has(row, keys) for row in store.scan(None, None)):
            yield str(current.parent.relative_to(root))
        store.close()


def topics_with(key: str, kafka: Kafka, topics: Iterable[str]) -> Iterator[str]:
    """Those of the topics that have the bytes in a record, aborted transactions included."""
    keys = _keys(key)
    for topic in topics:
        for partition in partitions_of(kafka, topic):
            first, end = stable_bounds(kafka, topic, partition)
            for one in read_range(kafka, topic, partition, first, end, isolation="read_uncommitted"):
                if _has((one.key(), one.value(), *(value for _, value in one.headers() or ())), keys):
                    yield topic


def _has(contents: Iterable[bytes | None], keys: ErasedKeys) -> bool:
    return any(key in content for content in contents if content for key in keys.keys)


def _keys(key: str) -> ErasedKeys:
    return ErasedKeys(ServedKind.KEY_VALUE, (key.encode(),))
