"""Whether two generations have the same content: the converted rows of the one are exactly the rows of the other.

Both must be paused, so that their changelogs end at the same input position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.generations.catalog import chain_of
from storekeeper.generations.changes.compare import Change, ComparisonVerdict, compare
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation
from storekeeper.generations.migration import Chain, StoreRecord
from storekeeper.kafka.connection import Kafka


def chain_between(older: Generation, newer: Generation) -> Chain:
    """The migrations that one generation has beyond another.

    Raises:
        GenerationRefusedError: `newer` doesn't begin with the migrations of `older`.
    """
    shared = len(older.migrations)
    if newer.migrations[:shared] != older.migrations:
        msg = f"generation {newer.number} does not follow on generation {older.number}: they can't be compared"
        raise GenerationRefusedError(msg)
    # A chain can be split anywhere: each step takes the version before it.
    return Chain(chain_of(newer.migrations).steps[shared:])


def compare_generations(kafka: Kafka, folder: Path, one: Generation, other: Generation) -> ComparisonVerdict:
    """Compares two paused generations of an app.

    The rows of the one with fewer migrations are converted. All stores that both have are compared together;
    a row is the same only if it is in the same store. `folder` holds temporary files, as large as the changelogs'
    content.

    Raises:
        GenerationRefusedError: the migrations of neither begin with those of the other.
        ChangelogError: a changelog is missing, or the broker doesn't answer, which is retriable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older, newer = sorted((one, other), key=lambda generation: len(generation.migrations))
    chain, both = chain_between(older, newer), older.topics.keys() & newer.topics.keys()
    chains = {store: chain.of(store) for store in both}

    def convert(whole: bytes, value: bytes) -> list[StoreRecord]:
        store, key = _apart(whole)
        return [(_whole(store, new_key), new_value) for new_key, new_value in chains[store].convert(key, value)]

    before, after = (
        _content(kafka, {store: generation.topics[store] for store in sorted(both)}) for generation in (older, newer)
    )
    return compare(before, after, convert, folder, key_of=lambda whole: _apart(whole)[1])


def _content(kafka: Kafka, topics: Mapping[str, str]) -> Iterator[Change]:
    for store, topic in topics.items():
        for key, value in read_changelog(kafka, topic):
            yield _whole(store, key), value


def _whole(store: str, key: bytes) -> bytes:
    """A key and its store as one: no store's name has a zero byte."""
    return store.encode() + b"\0" + key


def _apart(whole: bytes) -> tuple[str, bytes]:
    store, _, key = whole.partition(b"\0")
    return store.decode(), key


def read_changelog(kafka: Kafka, topic: str) -> Iterator[Change]:
    """The rows and tombstones that a changelog holds now, partition by partition in the order of offsets."""
    changelog = Changelog(kafka, topic)
    for partition in changelog.partitions:
        for record in changelog.scan(partition, *changelog.committed(partition)):
            yield record.key or b"", record.value


def behind(ahead: Position, other: Position) -> int:
    """How many input records `other` is behind `ahead`."""
    return sum(max(0, offset - (other.offset(topic, partition) or 0)) for topic, partition, offset in ahead)
