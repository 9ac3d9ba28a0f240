"""Whether two generations hold the same: every row of the one, converted, is a row of the other, and there is no more.

Both must hold, so that their changelogs end at the same place of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path

from spark_apps.generations.catalog import chain_of
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain, StoreRecord
from state.changelog.position import Position
from state.changelog.stretch import read_topic
from state.migration.compare import Change, ComparisonVerdict, compare


def conversion(source: Generation, target: Generation) -> Callable[[bytes, bytes], list[StoreRecord]]:
    """From a row of one generation to the rows that another must have for it."""
    shared = len(source.migrations)
    if target.migrations[:shared] == source.migrations:
        # The steps of a chain can be taken apart, since each takes the version before it.
        steps = chain_of(target.migrations).steps[shared:]
        return Chain(steps).convert
    back, there = chain_of(source.migrations), chain_of(target.migrations)
    return lambda key, value: there.convert(*back.revert(key, value))


def compare_generations(
    bootstrap: str, folder: Path, source: Generation, target: Generation, purged: Container[bytes] = frozenset()
) -> ComparisonVerdict:
    """Compares two generations that hold; `folder` takes files meanwhile, as large as the changelogs' content.

    Rows of `purged` keys may have other values: one of the two has forgotten what they were before a clean-up.

    Raises:
        ChangelogError: one of the changelogs isn't there, or the broker doesn't answer: that is retriable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older, newer = (read_changelog(bootstrap, generation.topic) for generation in (source, target))
    return compare(older, newer, conversion(source, target), folder, purged=purged)


def read_changelog(bootstrap: str, topic: str) -> Iterator[Change]:
    """The committed records that a topic holds now, partition by partition in the order of offsets."""
    for message in read_topic(bootstrap, topic):
        yield message.key() or b"", message.value()


def behind(ahead: Position, other: Position) -> int:
    """How many records of the input one position is behind another."""
    return sum(max(0, offset - (other.offset(topic, partition) or 0)) for topic, partition, offset in ahead)
