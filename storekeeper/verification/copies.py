"""Proving that a store's copies agree: the changelog, its newest snapshot, and what every query node holds.

Each copy reports its changelog offset. The changelog is folded up to exactly that offset, and digests are compared: no
writer has to stop. The keys are fetched only if digests differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.scan import Changelog
from storekeeper.masked_keys import masked_key
from storekeeper.stores.row_digest import bucket_of, entry_hash, moved

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
    different = []
    superseded = 0
    for key in sorted(ours.keys() | theirs.hashes.keys()):
        mine, folded = ours.get(key), theirs.hashes.get(key)
        if mine == folded:
            continue
        if folded is None and key in later:
            superseded += 1
            continue
        kind = "missing" if mine is None else "surplus" if folded is None else "different"
        different.append(Difference(copy.holder, partition, key, kind))
    return Differences(different, superseded)


CopiesOf = Callable[[int], Sequence[Copy]]
"""The copies of a partition, by its number."""


@dataclass(slots=True)
class Verification:
    """What was compared, and every difference that was shown.

    `superseded` counts keys that could not be compared in copies that differ: compaction has removed the changelog's
    record of them for a newer one.
    """

    compared: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    differing: int = 0
    superseded: int = 0
    shown: list[Difference] = field(default_factory=list)

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence for each shown difference; keys masked."""
        sentences = tuple(
            f"{difference.holder}, partition {difference.partition}: {difference.kind} {masked_key(difference.key)}"
            for difference in self.shown
        )
        more = self.differing - len(self.shown)
        return (*sentences, f"and {more} more") if more else sentences

    def note(self, differences: Differences) -> None:
        """Counts differences; keeps the first ones."""
        self.superseded += differences.superseded
        self.differing += len(differences.shown)
        self.shown += differences.shown[: MAX_DIFFERENCES - len(self.shown)]


def verify_copies(changelog: Changelog, copies_of: CopiesOf) -> Verification:
    """Compares every copy of every partition. Keeps a few words for each row of one partition in memory."""
    result = Verification()
    for partition in changelog.partitions:
        fold, reached = Fold(), changelog.first(partition)
        for copy in sorted(copies_of(partition), key=lambda copy: copy.offset):
            fold.take(changelog.scan(partition, reached, copy.offset) if copy.offset > reached else ())
            reached = max(reached, copy.offset)
            result.compared[copy.holder] = result.compared.get(copy.holder, 0) + 1
            if (len(fold.hashes), fold.digest) != (copy.rows, copy.digest):
                result.note(_explained(changelog, partition, copy, fold))
        result.rows += len(fold.hashes)
    return result


def differing_buckets(ours: Sequence[int], fold: Fold) -> list[int]:
    """The buckets whose digests differ from those of the changelog's content."""
    theirs = [0] * len(ours)
    for key, entry in fold.hashes.items():
        theirs[bucket_of(key)] += entry
    return [number for number, mine in enumerate(ours) if moved(0, added=theirs[number], removed=0) != mine]


def _explained(changelog: Changelog, partition: int, copy: Copy, fold: Fold) -> Differences:
    """Which keys differ. The copy may have moved on, so the changelog is folded again up to its current offset."""
    offset, entries, is_told = copy.entries(fold)
    start, end = changelog.first(partition), changelog.stable_end(partition)
    folded = Fold()
    folded.take(changelog.scan(partition, start, offset) if offset > start else ())
    folded.hashes = {key: entry for key, entry in folded.hashes.items() if is_told(key)}
    later = {record.key for record in changelog.scan(partition, offset, end) if record.key is not None}
    return differences(copy, partition, entries, folded, later)
