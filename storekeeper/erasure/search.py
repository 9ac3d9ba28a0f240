"""Looking for the bytes of keys in all that a project keeps: records of topics, and files, whatever compresses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Message

from storekeeper.changelog.bounded_reader import first_offset, partitions_of, read_range, stable_bounds
from storekeeper.changelog.skipped import headers_of
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.kafka.connection import Kafka
from storekeeper.locations import Location, files_below

_SHOWN_OFFSETS = 100
_MESSAGES = 100
_KEY = "_key"
_OF_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string)


@dataclass
class Searched:
    """What was searched, and what was found.

    Attributes:
        topics: by topic and partition, the offsets that were read: the first, and the end.
        files: how many.
        found: where bytes of the keys are, one object a place; and each file that can't be read.
        rows: files of the store's own tables that still have rows of the keys.
    """

    topics: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    files: int = 0
    found: list[dict[str, Any]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)

    def read_topic(self, kafka: Kafka, topic: str, keys: ErasedKeys) -> None:
        """Reads a topic as a whole, aborted transactions included."""
        ends = {at: (first_offset(kafka, topic, at), stable_bounds(kafka, topic, at)[1])
                for at in partitions_of(kafka, topic)}  # fmt: skip
        self.topics[topic] = {str(at): list(bounds) for at, bounds in ends.items()}
        for partition, (first, end) in ends.items():
            offsets, count = list[int](), 0
            messages = iter(read_range(kafka, topic, partition, first, end, isolation="read_uncommitted"))
            while piece := list(islice(messages, _MESSAGES)):
                found = dict.fromkeys(_offsets_with(keys, piece))
                count += len(found)
                offsets += found
            if count:
                place = {"topic": topic, "partition": partition, "records": count}
                self.found.append({**place, "offsets": offsets[:_SHOWN_OFFSETS]})

    def read_files(self, root: Location, keys: ErasedKeys, own: Iterable[str] = ()) -> None:
        """Reads all files of a folder.

        Args:
            root: the folder.
            keys: the keys.
            own: the folders in it that hold the store's own tables: they have no row of the keys.
        """
        own_folders = tuple(f"{name}/" for name in own)
        for name in sorted(files_below(root)):
            try:
                content = (root / name).read_bytes()
            except FileNotFoundError:  # removed while the folder is read
                continue
            self.files += 1
            columns = Counter[str]()
            try:
                for batch in _batches(content) if name.endswith(".parquet") else ():
                    columns.update(dict(_found_in(batch, keys)))
                    is_own = name.startswith(own_folders) and _KEY in batch.schema.names
                    if is_own and any(map(keys.holds, batch[_KEY].to_pylist())):
                        self.rows.append(name)
            except (pa.ArrowException, OSError):  # another program writes it now, or left it half written
                self.found.append({"file": f"{root}/{name}", "unreadable": True})
            if not name.endswith(".parquet") and keys.are_in(pa.array([content], pa.large_binary()))[0].as_py():
                columns[""] += 1
            for column, count in sorted(columns.items()):
                place = {"file": f"{root}/{name}"} | ({"column": column} if column else {})
                self.found.append({**place, "values": count})


def _offsets_with(keys: ErasedKeys, messages: Sequence[Message]) -> Iterator[int]:
    """The offset of each key, value and header with the bytes of a key."""
    places = [
        (message.offset() or 0, content)
        for message in messages
        for content in (message.key(), message.value(), *(value for _, value in headers_of(message) or ()))
        if content
    ]
    found = keys.are_in(pa.array([content for _, content in places], pa.large_binary()))
    return (offset for (offset, _), is_there in zip(places, found.to_pylist(), strict=True) if is_there)


def _batches(content: bytes) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(pa.BufferReader(content)).iter_batches()


def _found_in(batch: pa.RecordBatch, keys: ErasedKeys) -> Iterator[tuple[str, int]]:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        count = sum(pc.sum(keys.are_in(leaf)).as_py() or 0 for leaf in _leaves(column))
        if count:
            yield name, count


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of texts and bytes that an array is made of."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _leaves(array.dictionary_decode())
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(array.flatten())
    elif pa.types.is_fixed_size_binary(kind):
        yield array.cast(pa.binary())
    elif any(is_it(kind) for is_it in _OF_BYTES):
        yield array
