"""Proving that a store's copies agree: the changelog, its newest snapshot, and what every query node holds.

Each copy reports its changelog offset. The changelog is folded up to exactly that offset, and digests are compared: no
writer has to stop. A digest covers all that the copy keeps of a record. The keys are fetched only if digests differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storekeeper.changelog.headers import schema_version_of
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.scan import Changelog
from storekeeper.collector import collector_off
from storekeeper.masked_keys import masked_key
from storekeeper.stores.row_digest import bucket_of, entry_hash, moved, row_hash, stored_row_hash

HashOf = Callable[[bytes, bytes, LogRecord], int]
"""The hash of a row by its key, its value and its record: of what a kind of copy keeps of it."""


def of_value(key: bytes, value: bytes, _: LogRecord) -> int:
    """Key and value: what a task's local store keeps."""
    return entry_hash(key, value)


def of_stored_row(key: bytes, value: bytes, record: LogRecord) -> int:
    """Also the time and the schema version: what a node keeps."""
    return stored_row_hash(key, value, record.timestamp_ms, schema_version_of(record.headers))


def of_snapshot_row(key: bytes, value: bytes, record: LogRecord) -> int:
    """Also the offset and the time: what a snapshot keeps."""
    return row_hash(key, value, record.offset, record.timestamp_ms)


@dataclass(frozen=True, slots=True)
class Held:
    """What a copy that differs holds.

    Attributes:
        offset: its changelog offset by now.
        hashes: of its rows, by key.
        covers: whether `hashes` has a row if the copy does, by its key.
        places: the offsets of the rows' records, by key, if the copy keeps them.
    """

    offset: int
    hashes: Mapping[bytes, int]
    covers: Callable[[bytes], bool] = lambda _: True
    places: Mapping[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copy:
    """One holder's copy of a partition.

    Attributes:
        holder: its name, such as `snapshot 12` or `node a`.
        offset: the changelog offset, exclusive, at which it should hold the same as the changelog.
        rows, digest: number and digest of all of its rows.
        held: called if there is a difference, with the hashes by key of what the changelog holds. It may give the
            differing rows in parts.
        hash_of: the hash of which its digest is the sum.
    """

    holder: str
    offset: int
    rows: int
    digest: int
    held: Callable[[Mapping[bytes, int]], Iterable[Held]]
    hash_of: HashOf = of_value


class Fold:
    """A partition's content from its records: for each kind of hash, the hash of each row, and their sum."""

    def __init__(self, *kinds: HashOf) -> None:
        self._kinds = kinds
        self._hashes: dict[bytes, tuple[int, ...]] = {}
        self._sums = [0] * len(kinds)

    def take(self, records: Iterable[LogRecord]) -> None:
        """Folds more records."""
        kinds, sums = self._kinds, self._sums
        for record in records:
            key, value = record.key, record.value
            if key is None:
                continue
            for number, old in enumerate(self._hashes.pop(key, ())):
                sums[number] -= old
            if value is not None:
                hashes = self._hashes[key] = tuple([kind(key, value, record) for kind in kinds])
                for number, new in enumerate(hashes):
                    sums[number] += new

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._hashes)

    def digest(self, kind: HashOf) -> int:
        """The digest of all rows."""
        return moved(0, added=self._sums[self._kinds.index(kind)], removed=0)

    def hashes(self, kind: HashOf) -> dict[bytes, int]:
        """The hash of each row, by key."""
        number = self._kinds.index(kind)
        return {key: hashes[number] for key, hashes in self._hashes.items()}


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
    copy: Copy, partition: int, held: Held, folded: Mapping[bytes, int], superseded: Collection[bytes]
) -> Differences:
    """The keys that differ, but for those whose record compaction has taken away for a newer one: `superseded`."""
    different = []
    excused = 0
    for key in sorted(held.hashes.keys() | folded.keys()):
        mine, theirs = held.hashes.get(key), folded.get(key)
        if mine == theirs:
            continue
        if key in superseded:
            excused += 1
            continue
        kind = "missing" if mine is None else "surplus" if theirs is None else "different"
        different.append(Difference(copy.holder, partition, key, kind))
    return Differences(different, excused)


_SHOWN = 3

Observed = Callable[[int, Iterable[LogRecord]], Iterable[LogRecord]]
"""Passes the records of a partition on."""
CopiesOf = Callable[[int], Sequence[Copy]]
"""The copies of a partition, by its number."""


@dataclass(slots=True)
class Verification:
    """What was compared, and the first differences of each copy.

    `superseded` counts keys that could not be compared in copies that differ: compaction has removed the changelog's
    record of them for a newer one. `wrong` are the copies with a difference, each by its holder and its partition.
    """

    compared: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    differing: int = 0
    superseded: int = 0
    shown: list[Difference] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    wrong: list[tuple[str, int]] = field(default_factory=list)

    def note(self, copy: Copy, partition: int, found: Differences) -> None:
        """Counts the differences of a copy, and tells the first ones, keys masked: those of each copy have a place."""
        if found.shown:
            self.wrong.append((copy.holder, partition))
        self.superseded += found.superseded
        self.differing += len(found.shown)
        self.shown += found.shown
        where = f"{copy.holder}, partition {partition}"
        self.reasons += [f"{where}: {one.kind} {masked_key(one.key)}" for one in found.shown[:_SHOWN]]
        if len(found.shown) > _SHOWN:
            self.reasons.append(f"{where}: and {len(found.shown) - _SHOWN} more")

    def note_loss(self, copy: Copy, partition: int, end: int) -> None:
        """Tells of a copy that holds more than the changelog has."""
        where = f"{copy.holder}, partition {partition}"
        self.reasons.append(
            f"{where}: holds the changelog up to {copy.offset}, which ends at {end}: it has lost records"
        )


def _as_they_are(_: int, records: Iterable[LogRecord]) -> Iterable[LogRecord]:
    return records


@collector_off()
def verify_copies(changelog: Changelog, copies_of: CopiesOf, observed: Observed = _as_they_are) -> Verification:
    """Compares every copy of every partition. Keeps a few words for each row of one partition in memory. `observed`
    sees the records of each partition once, as they are folded.
    """
    result = Verification()
    for partition in changelog.partitions:
        copies = sorted(copies_of(partition), key=lambda copy: copy.offset)
        fold, reached = Fold(*{copy.hash_of: None for copy in copies}), changelog.first(partition)
        stable = changelog.stable_end(partition)
        for copy in copies:
            if copy.offset > stable and copy.offset > (end := changelog.committed(partition)[1]):
                result.note_loss(copy, partition, end)
                continue
            passing = changelog.scan(partition, reached, copy.offset) if copy.offset > reached else ()
            fold.take(observed(partition, passing))
            reached = max(reached, copy.offset)
            result.compared[copy.holder] = result.compared.get(copy.holder, 0) + 1
            if (fold.rows, fold.digest(copy.hash_of)) != (copy.rows, copy.digest):
                result.note(copy, partition, _first_differences(changelog, partition, copy, fold))
        result.rows += fold.rows
    return result


def differing_buckets(ours: Sequence[int], hashes: Mapping[bytes, int]) -> list[int]:
    """The buckets whose digests differ from those of the changelog's content."""
    theirs = [0] * len(ours)
    for key, one in hashes.items():
        theirs[bucket_of(key)] += one
    return [number for number, mine in enumerate(ours) if moved(0, added=theirs[number], removed=0) != mine]


def _first_differences(changelog: Changelog, partition: int, copy: Copy, fold: Fold) -> Differences:
    """The differences in the first part that has any. A part whose keys are all superseded says nothing of the next."""
    superseded = 0
    for held in copy.held(fold.hashes(copy.hash_of)):
        found = _explained(changelog, partition, copy, held)
        superseded += found.superseded
        if found.shown:
            return Differences(found.shown, superseded)
    return Differences([], superseded)


def _explained(changelog: Changelog, partition: int, copy: Copy, held: Held) -> Differences:
    """Which keys differ. The copy may have moved on, so the changelog is folded again up to its current offset.

    A key is superseded if the log has no record of it before that offset, and one behind it: compaction takes older
    records before newer ones. A row that names its record is superseded only if the log lacks that one.
    """
    start, end = changelog.first(partition), changelog.stable_end(partition)
    folded = Fold(copy.hash_of)
    known: set[bytes | None] = set()
    wanted, there = {*held.places.values()}, set()
    for record in changelog.scan(partition, start, held.offset) if held.offset > start else ():
        folded.take([record])
        known.add(record.key)
        if record.offset in wanted:
            there.add(record.offset)
    known |= {key for key, place in held.places.items() if place in there or place >= held.offset}
    later = {record.key for record in changelog.scan(partition, max(start, held.offset), end)}
    hashes = {key: one for key, one in folded.hashes(copy.hash_of).items() if held.covers(key)}
    return differences(copy, partition, held, hashes, {key for key in later - known if key is not None})
