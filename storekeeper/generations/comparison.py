"""Whether two generations have the same content: the converted rows of the one are exactly the rows of the other.

Both must be paused, so that their changelogs end at the same input position.

Compares two contents key by key after converting one of them, with little memory.

Rows are split by the hash of their key into files, then each file is compared with its counterpart. Reports of rows
that differ are masked: a few characters of the key, and never a value.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import xxhash

from storekeeper.changelog.scan import Changelog
from storekeeper.errors import SerializationError
from storekeeper.generations.catalog import chain_of
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation
from storekeeper.generations.migration import Chain, StoreRecord
from storekeeper.kafka.connection import Kafka
from storekeeper.masked_keys import masked_key

Row = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]
"""Key and value of a changelog's record; None deletes."""
Convert = Callable[[bytes, bytes], Sequence[Row]]

_HEAD = struct.Struct(">Ii")
_PARTITION = struct.Struct(">i")
_ANYWHERE = -1
_DELETED = -1
_PARTS = 64
"""How many files each content is split into: the largest of them must fit into memory."""
_MOST_SAMPLES = 5
_SCRATCH = "compare-"


@dataclass(frozen=True, slots=True)
class Samples:
    """Masked keys of some of the wrong rows."""

    differing: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    unconvertible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonVerdict:
    """The result of a comparison, in rows of the newer content.

    Attributes:
        compared: rows that either of the two has.
        same, differing: rows that both have, with equal and with other values.
        missing: rows that only the older one, converted, has.
        unexpected: rows that only the newer one has.
        unconvertible: rows of the older one that can't be converted, or would then have the key of another.
        holds: whether all rows are the same.
        samples: masked keys.
    """

    compared: int
    same: int
    differing: int
    missing: int
    unexpected: int
    unconvertible: int
    holds: bool
    samples: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class _Tally:
    key_of: Callable[[bytes], bytes]
    counts: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, what: str, key: bytes, why: str = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        samples = self.samples.setdefault(what, [])
        if len(samples) < _MOST_SAMPLES:
            samples.append(masked_key(self.key_of(key)) + why)

    def verdict(self) -> ComparisonVerdict:
        kinds = ("differing", "missing", "unexpected", "unconvertible")
        same = self.counts.get("same", 0)
        differing, missing, unexpected, unconvertible = (self.counts.get(kind, 0) for kind in kinds)
        return ComparisonVerdict(
            compared=same + differing + missing + unexpected,
            same=same,
            differing=differing,
            missing=missing,
            unexpected=unexpected,
            unconvertible=unconvertible,
            holds=not (differing or missing or unexpected or unconvertible),
            samples=Samples(*(tuple(self.samples.get(kind, ())) for kind in kinds)),
        )


def compare(
    older: Iterable[Change],
    newer: Iterable[Change],
    convert: Convert,
    folder: Path,
    *,
    key_of: Callable[[bytes], bytes] = bytes,
) -> ComparisonVerdict:
    """Compares the newer content with the older content, converted: they should have exactly the same rows.

    Args:
        older: rows in any order, or changelog records in log order: the last record of a key counts.
        newer: the same.
        convert: from a row of the older to those of the newer content. Any exception makes the row unconvertible.
        folder: where temporary files go; as large as the older content and the digests of both.
        key_of: the part of a row's key that is reported, masked; all of it by default.
    """
    tally = _Tally(key_of)
    with TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
        root = Path(scratch)
        raw = _deal(older, root / "older")
        converted = _deal(_converted(raw, convert, tally), root / "converted", digest=True)
        dealt = _deal(newer, root / "newer", digest=True)
        for wanted_file, found_file in zip(converted, dealt, strict=True):
            expected = _latest(wanted_file, lambda key: tally.note("unconvertible", key, ": another row has it too"))
            _compare_part(expected, _latest(found_file), tally)
    return tally.verdict()


def _converted(files: Iterable[Path], convert: Convert, tally: _Tally) -> Iterator[Row]:
    """The rows of the older content as the newer one must have them."""
    for path in files:
        for key, value in _latest(path).items():
            try:
                row = convert(key, value)
            except Exception as error:
                # The app's own function may raise anything; its message may hold a value.
                tally.note("unconvertible", key, f": {type(error).__name__}")
            else:
                yield from row


def _compare_part(expected: dict[bytes, bytes], actual: dict[bytes, bytes], tally: _Tally) -> None:
    for key, digest in expected.items():
        other = actual.pop(key, None)
        if other is None or other == digest:
            tally.note("missing" if other is None else "same", key)
        else:
            tally.note("differing", key)
    for key in actual:
        tally.note("unexpected", key)


def _deal(changes: Iterable[Change], folder: Path, *, digest: bool = False) -> list[Path]:
    """Writes records into files by the hash of their key, in their order; with digests instead of values."""
    folder.mkdir()
    paths = [folder / f"{number:04d}" for number in range(_PARTS)]
    with ExitStack() as stack:
        files: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in paths]
        for key, value in changes:
            content = value if value is None or not digest else xxhash.xxh128_digest(value)
            length = _DELETED if content is None else len(content)
            files[xxhash.xxh64_intdigest(key) % _PARTS].write(_HEAD.pack(len(key), length) + key + (content or b""))
    return paths


def _latest(path: Path, again: Callable[[bytes], object] = lambda _: None) -> dict[bytes, bytes]:
    """The last value of each key in a file; deleted ones are left out. Calls `again` for keys that recur."""
    data = path.read_bytes()
    rows: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        key_length, length = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size + key_length
        key = data[at + _HEAD.size : begin]
        if length == _DELETED:
            rows.pop(key, None)
            at = begin
            continue
        at = begin + length
        if at > len(data):
            raise SerializationError(f"{path.name} was cut off while it was compared: is the disk full?")
        if key in rows:
            again(key)
        rows[key] = data[begin:at]
    return rows


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
    a row is the same only if it is in the same store, and in the same partition unless rows move: to other keys, or to
    another number of partitions. Where they move, rows of one key in several partitions can't be converted.

    Args:
        kafka: the Kafka.
        folder: of this app alone. Temporary files go there, as large as the changelogs' content; those of a comparison
            that was killed are deleted.
        one: one of the generations.
        other: the other one.

    Raises:
        GenerationRefusedError: the migrations of neither begin with those of the other.
        ChangelogError: a changelog is missing, or the broker doesn't answer, which is retriable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    older, newer = sorted((one, other), key=lambda generation: len(generation.migrations))
    chain, both = chain_between(older, newer), older.topics.keys() & newer.topics.keys()
    chains = {store: chain.of(store) for store in both}
    before, after = (
        {store: Changelog(kafka, generation.topics[store]) for store in sorted(both)} for generation in (older, newer)
    )
    moved = {
        store
        for store in both
        if chains[store].changes_key or len(before[store].partitions) != len(after[store].partitions)
    }

    def convert(whole: bytes, value: bytes) -> list[StoreRecord]:
        store, partition, key = _apart(whole)
        at = _ANYWHERE if store in moved else partition
        return [(_whole(store, at, new_key), new_value) for new_key, new_value in chains[store].convert(key, value)]

    return compare(_content(before), _content(after, moved), convert, folder, key_of=lambda whole: _apart(whole)[2])


def _content(logs: Mapping[str, Changelog], moved: Container[str] = ()) -> Iterator[Change]:
    """The records of stores, by store, partition and key; those of `moved` ones by store and key."""
    for store, log in logs.items():
        for partition in log.partitions:
            at = _ANYWHERE if store in moved else partition
            for record in log.scan(partition, *log.committed(partition)):
                yield _whole(store, at, record.key or b""), record.value


def _whole(store: str, partition: int, key: bytes) -> bytes:
    """A key with its store and partition: no store's name has a zero byte."""
    return store.encode() + b"\0" + _PARTITION.pack(partition) + key


def _apart(whole: bytes) -> tuple[str, int, bytes]:
    store, _, rest = whole.partition(b"\0")
    return store.decode(), *_PARTITION.unpack_from(rest), rest[_PARTITION.size :]
