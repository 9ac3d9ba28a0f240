"""Compares two contents key by key after converting one of them, with little memory.

Rows are split by the hash of their key into files, then each file is compared with its counterpart. Reports of rows
that differ are masked: a few characters of the key, and never a value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import orjson
import xxhash

from state.errors import InvalidArgumentError, SerializationError

Row = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]
"""Key and value of a changelog's record; None deletes."""
Convert = Callable[[bytes, bytes], Sequence[Row]]

_HEAD = struct.Struct(">Ii")
_DELETED = -1
_SHOWN_CHARS = 2


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """How many rows may be wrong while the comparison still holds; none by default.

    Attributes:
        rows: the most rows that may differ, be missing, be unexpected or not be convertible, in total.
        share: the largest share of all compared rows that may be wrong. Both limits apply.
    """

    rows: int = 0
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.rows < 0 or not 0 <= self.share <= 1:
            raise InvalidArgumentError("an error budget has 0 rows or more, and a share from 0 to 1")

    def allows(self, wrong: int, compared: int) -> bool:
        """Whether `wrong` rows of `compared` are within the budget."""
        return wrong == 0 or (wrong <= self.rows and wrong <= self.share * compared)


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
        holds: whether the error budget allows it.
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

    def encode(self) -> bytes:
        """The verdict as JSON."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)


@dataclass(slots=True)
class _Tally:
    most: int
    key_of: Callable[[bytes], bytes]
    counts: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, what: str, key: bytes, why: str = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        samples = self.samples.setdefault(what, [])
        if len(samples) < self.most:
            samples.append(masked(self.key_of(key)) + why)

    def verdict(self, budget: ErrorBudget) -> ComparisonVerdict:
        kinds = ("differing", "missing", "unexpected", "unconvertible")
        same = self.counts.get("same", 0)
        differing, missing, unexpected, unconvertible = (self.counts.get(kind, 0) for kind in kinds)
        compared = same + differing + missing + unexpected
        wrong = differing + missing + unexpected + unconvertible
        return ComparisonVerdict(
            compared=compared,
            same=same,
            differing=differing,
            missing=missing,
            unexpected=unexpected,
            unconvertible=unconvertible,
            holds=budget.allows(wrong, compared + unconvertible),
            samples=Samples(*(tuple(self.samples.get(kind, ())) for kind in kinds)),
        )


def compare(
    older: Iterable[Change],
    newer: Iterable[Change],
    convert: Convert,
    folder: Path,
    *,
    budget: ErrorBudget | None = None,
    parts: int = 64,
    most_samples: int = 5,
    key_of: Callable[[bytes], bytes] = bytes,
) -> ComparisonVerdict:
    """Compares the newer content with the older content, converted: they should have exactly the same rows.

    Args:
        older: rows in any order, or changelog records in log order: the last record of a key counts.
        newer: the same.
        convert: from a row of the older to those of the newer content. Any exception makes the row unconvertible.
        folder: where temporary files go; as large as the older content and the digests of both.
        budget: what may be wrong; nothing by default.
        parts: how many files each content is split into: the largest of them must fit into memory.
        most_samples: the most masked keys of each kind that are reported.
        key_of: the part of a row's key that is reported, masked; all of it by default.
    """
    tally = _Tally(most_samples, key_of)
    with TemporaryDirectory(dir=folder, prefix="compare-") as scratch:
        root = Path(scratch)
        raw = _deal(older, root / "older", parts)
        _deal(_converted(raw, convert, tally), root / "converted", parts, digest=True)
        found = _deal(newer, root / "newer", parts, digest=True)
        for wanted_file, found_file in zip(_files(root / "converted", parts), found, strict=True):
            wanted = _latest(wanted_file, lambda key: tally.note("unconvertible", key, ": another row has it too"))
            _compare_part(wanted, _latest(found_file), tally)
    return tally.verdict(budget or ErrorBudget())


def masked(key: bytes) -> str:
    """A key, masked: its first and last characters, its length, and a digest to find it by."""
    text = key.decode(errors="replace")
    shown = f"{text[:_SHOWN_CHARS]}…{text[-_SHOWN_CHARS:]}" if len(text) > 3 * _SHOWN_CHARS else "…"
    return f"{shown} ({len(key)} bytes, xxh64 {xxhash.xxh64_hexdigest(key)})"


def _converted(files: Iterable[Path], convert: Convert, tally: _Tally) -> Iterator[Row]:
    """The rows of the older content as the newer one must have them."""
    for path in files:
        for key, value in _latest(path).items():
            try:
                made = convert(key, value)
            except Exception as error:
                # The app's own function may raise anything; its message may hold a value.
                tally.note("unconvertible", key, f": {type(error).__name__}")
            else:
                yield from made


def _compare_part(wanted: dict[bytes, bytes], found: dict[bytes, bytes], tally: _Tally) -> None:
    for key, digest in wanted.items():
        other = found.pop(key, None)
        if other is None or other == digest:
            tally.note("missing" if other is None else "same", key)
        else:
            tally.note("differing", key)
    for key in found:
        tally.note("unexpected", key)


def _deal(changes: Iterable[Change], folder: Path, parts: int, *, digest: bool = False) -> list[Path]:
    """Writes records into files by the hash of their key, in their order; with digests instead of values."""
    folder.mkdir()
    paths = _files(folder, parts)
    with ExitStack() as stack:
        files: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in paths]
        for key, value in changes:
            content = value if value is None or not digest else xxhash.xxh128_digest(value)
            length = _DELETED if content is None else len(content)
            files[xxhash.xxh64_intdigest(key) % parts].write(_HEAD.pack(len(key), length) + key + (content or b""))
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
            msg = f"{path.name} was cut off while it was compared: is the disk full?"
            raise SerializationError(msg)
        if key in rows:
            again(key)
        rows[key] = data[begin:at]
    return rows


def _files(folder: Path, parts: int) -> list[Path]:
    return [folder / f"{number:04d}" for number in range(parts)]
