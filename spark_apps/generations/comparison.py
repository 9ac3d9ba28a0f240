"""Whether two generations hold the same: every row of the one, converted, is a row of the other, and there is no more.

Both must hold, so that their changelogs end at the same place of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_apps.generations.catalog import chain_of
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain, PlacedRecord, StoreRecord
from state.changelog.position import Position
from state.maintenance.kafka_log import Changelog
from state.migration.compare import Change, ComparisonVerdict, compare


def conversion(source: Generation, target: Generation) -> Callable[[str, bytes, bytes], list[PlacedRecord]]:
    """From a row of one generation, with its store, to the rows that another must have for it, with theirs."""
    shared = len(source.migrations)
    if target.migrations[:shared] == source.migrations:
        # The steps of a chain can be taken apart, since each takes the version before it.
        rest = _by_store(Chain(chain_of(target.migrations).steps[shared:]), source)
        return lambda store, key, value: rest[source.own_store(store)].placed(store, key, value)
    back, there = (_by_store(chain_of(generation.migrations), source) for generation in (source, target))

    def all_the_way(store: str, key: bytes, value: bytes) -> list[PlacedRecord]:
        own = source.own_store(store)
        return there[own].placed(own, *back[own].revert(key, value))

    return all_the_way


def _by_store(chain: Chain, generation: Generation) -> dict[str, Chain]:
    return {store: chain.of(store) for store in generation.topics}


def compare_generations(
    bootstrap: str,
    folder: Path,
    source: Generation,
    target: Generation,
    *,
    purged: Container[bytes] = frozenset(),
) -> ComparisonVerdict:
    """Compares two generations of an app, which hold.

    All stores of each are compared as one content, in which a row is the same only if it is in the same store. Rows of
    `purged` keys, in whichever store, may have other values: one of the two has forgotten what they were before a
    clean-up. `folder` takes files meanwhile, as large as the changelogs' content.

    Raises:
        ChangelogError: one of the changelogs isn't there, or the broker doesn't answer: that is retriable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older, newer = (_content(bootstrap, generation.changelogs) for generation in (source, target))
    placed = conversion(source, target)

    def convert(whole: bytes, value: bytes) -> list[StoreRecord]:
        name, key = _apart(whole)
        return [(_whole(new_name, new_key), new_value) for new_name, new_key, new_value in placed(name, key, value)]

    return compare(older, newer, convert, folder, purged=_InAnyStore(purged), key_of=lambda whole: _apart(whole)[1])


@dataclass(frozen=True, slots=True)
class _InAnyStore:
    """Keys, whichever store they are in."""

    keys: Container[bytes]

    def __contains__(self, whole: object) -> bool:
        return isinstance(whole, bytes) and _apart(whole)[1] in self.keys


def _content(bootstrap: str, topics: Mapping[str, str]) -> Iterator[Change]:
    for store, topic in topics.items():
        for key, value in read_changelog(bootstrap, topic):
            yield _whole(store, key), value


def _whole(store: str, key: bytes) -> bytes:
    """A key and its store as one: no store's name has a zero byte."""
    return store.encode() + b"\0" + key


def _apart(whole: bytes) -> tuple[str, bytes]:
    store, _, key = whole.partition(b"\0")
    return store.decode(), key


def read_changelog(bootstrap: str, topic: str) -> Iterator[Change]:
    """The rows and tombstones that a changelog holds now, partition by partition in the order of offsets."""
    changelog = Changelog(bootstrap, topic)
    for partition in changelog.partitions:
        for record in changelog.scan(partition, *changelog.bounds(partition)):
            yield record.key or b"", record.value


def behind(ahead: Position, other: Position) -> int:
    """How many records of the input one position is behind another."""
    return sum(max(0, offset - (other.offset(topic, partition) or 0)) for topic, partition, offset in ahead)
