"""Copies of a changelog partition, a snapshot or a replica of a node, compared with the changelog folded so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from state.maintenance.log_record import LogRecord
from state.snapshots.digest import entry_hash, moved

MAX_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class Copy:
    """One holder's copy of a partition.

    Attributes:
        holder: its name, such as `snapshot 12` or `node a`.
        offset: the changelog offset, exclusive, at which it should hold the same as the changelog.
        rows, digest: number and digest of all of its rows.
        entries: called if there is a difference. Returns the copy's offset by then, hashes of entries by key, and a
            predicate for the keys that these cover.
    """

    holder: str
    offset: int
    rows: int
    digest: int
    entries: Callable[[Fold], tuple[int, Mapping[bytes, int], Callable[[bytes], bool]]]


@dataclass(slots=True)
class Fold:
    """A partition's content from its records: the hash of each row, and their sum."""

    hashes: dict[bytes, int] = field(default_factory=dict)
    digest: int = 0

    def take(self, records: Iterable[LogRecord]) -> None:
        """Folds more records."""
        total = self.digest
        for record in records:
            if record.key is None:
                continue
            total -= self.hashes.pop(record.key, 0)
            if record.value is not None:
                entry = self.hashes[record.key] = entry_hash(record.key, record.value)
                total += entry
        self.digest = moved(0, added=total, removed=0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs between a holder and the changelog. `kind`: missing, surplus or different."""

    holder: str
    partition: int
    key: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class Differences:
    """The keys that differ, in their order, and the number of keys that can't be compared."""

    shown: list[Difference]
    superseded: int


def differences(
    copy: Copy, partition: int, ours: Mapping[bytes, int], theirs: Fold, later: Collection[bytes]
) -> Differences:
    """The keys that differ.

    `later` are keys with newer records. If the changelog has only newer records of a key, compaction has removed the
    older one that the copy may rightly hold. The key can't be compared: it is superseded.
    """
    found = []
    superseded = 0
    for key in sorted(ours.keys() | theirs.hashes.keys()):
        mine, folded = ours.get(key), theirs.hashes.get(key)
        if mine == folded:
            continue
        if folded is None and key in later:
            superseded += 1
            continue
        kind = "missing" if mine is None else "surplus" if folded is None else "different"
        found.append(Difference(copy.holder, partition, key, kind))
    return Differences(found, superseded)
