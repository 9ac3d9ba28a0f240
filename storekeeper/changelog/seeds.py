"""Stores that are far behind begin with the rows of a sealed table, and read their changelog on from there.

The stores of nodes and of tasks do so alike. A seed saves time and nothing else: whatever is wrong with it, the log
says so, and the store is restored from its changelog alone. Rows come first and the checkpoint last. So a store that a
crash leaves half loaded has rows without a checkpoint, and is emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from storekeeper.changelog.checkpoint import Checkpoint
from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.restore import LogState, Seed, SeedRefusal, seed_refusal
from storekeeper.clock import Clock
from storekeeper.errors import StateError

_log = structlog.get_logger(__name__)

SeedRow = tuple[bytes, bytes, int]
"""Key, value and timestamp of a row's changelog record."""
Report = Callable[[int, int], object]
"""Called with how much of a step is done, and how much it is: files that are compared, then rows that are loaded."""


class SeedTable(Protocol):
    """A version of a store's table, whose files are as they were sealed."""

    @property
    def schema_version(self) -> int:
        """That of all rows."""
        ...

    @property
    def source(self) -> SourceRanges:
        """Where the app's input goes on, as the range of a batch that ended there."""
        ...

    def of(self, partition: int) -> Seed | SeedRefusal:
        """What it has of a changelog partition, or why that can't be used."""
        ...

    def rows(self, partitions: Collection[int]) -> Iterator[tuple[int, list[SeedRow]]]:
        """The rows of partitions, each time some of one partition.

        Raises:
            StateError: a file is missing or damaged, or the store of the tables doesn't answer.
        """
        ...


class SeedSource(Protocol):
    """Finds seeds. Spark sends it to its workers, so it holds nothing but where the tables are."""

    def newest(self, store: str, report: Report) -> SeedTable | None:
        """The newest version of a store's table, None if there is none. All of its files were compared with its seal.

        Raises:
            StateError: the table isn't as it was sealed, or its store doesn't answer.
            ImportError: nothing is installed that reads tables.
        """
        ...


@dataclass(frozen=True, slots=True)
class Behind:
    """A store that may begin with a seed.

    Attributes:
        log: its changelog partition now.
        position: the offset that it would be read on from without a seed.
        empty: deletes its rows and its checkpoint.
        write: writes rows, which have that schema version.
        complete: writes its checkpoint.
    """

    log: LogState
    position: int
    empty: Callable[[], object]
    write: Callable[[Sequence[SeedRow], int], object]
    complete: Callable[[Checkpoint], object]


def not_reported(_done: int, _total: int) -> None:
    """Nobody watches."""


def load_seeds(
    source: SeedSource, store: str, behind: Iterable[Behind], clock: Clock, report: Report = not_reported
) -> list[int]:
    """Loads the newest sealed table of a store into its partitions, where it can be used.

    Args:
        source: finds the table.
        store: the store.
        behind: its partitions; they are not asked for before there is a table.
        clock: for the age of the table.
        report: called with the progress.

    Returns:
        The partitions that have begun with the table. The others are as they were, or have no checkpoint.
    """
    try:
        table = source.newest(store, report)
        if table is None:
            _log.info("store_not_seeded", store=store, why="it has no sealed table")
            return []
        return _loaded(table, store, behind, clock, report)
    except (StateError, ImportError) as error:  # without deltalake there are no tables to read
        _log.warning("store_not_seeded", store=store, why=str(error))
    except Exception:
        _log.exception("store_not_seeded", store=store)
    return []


def _loaded(table: SeedTable, store: str, behind: Iterable[Behind], clock: Clock, report: Report) -> list[int]:
    chosen: dict[int, tuple[Behind, Seed]] = {}
    for one in behind:
        log = one.log
        seed = table.of(log.partition)
        refusal = seed if isinstance(seed, SeedRefusal) else _refusal(seed, one, clock)
        if isinstance(seed, Seed) and refusal is None:
            chosen[log.partition] = one, seed
        else:
            _log.info("store_not_seeded", store=store, topic=log.topic, partition=log.partition, why=str(refusal))
    if not chosen:
        return []
    for one, _ in chosen.values():
        one.empty()
    done, total = 0, sum(seed.rows for _, seed in chosen.values())
    for partition, rows in table.rows(chosen):
        chosen[partition][0].write(rows, table.schema_version)
        done += len(rows)
        report(done, max(done + 1, total))  # how many rows a partition has is known by average
    for one, seed in chosen.values():
        checkpoint = Checkpoint(seed.topic, seed.topic_id, seed.partition, seed.offset, seed.whole_at_ms)
        one.complete(checkpoint.moved(seed.offset, source=table.source))
        _log.info("store_seeded", store=store, topic=seed.topic, partition=seed.partition, offset=seed.offset)
    return list(chosen)


def _refusal(seed: Seed, behind: Behind, clock: Clock) -> SeedRefusal | None:
    return seed_refusal(seed, behind.log, position=behind.position, now_ms=clock.now_ms())
