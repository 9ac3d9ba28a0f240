"""The rows of a store as they were at a time, as a fold of its history. No I/O.

`<store>_history` has each change of a store once, with the time of its batch. The rows at a time are the newest change
of each key up to then, deletions left out. The time of a batch is the same for all partitions and stores of an app, so
a time cuts all of them at the same batch. Only the changes of an era count, whose first are all rows of its beginning:
a new generation, for example, begins one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from storekeeper.clock import DATE_DIGITS
from storekeeper.errors import InvalidArgumentError, NotExactError
from storekeeper.serdes.keys.escaping import after_key, ended
from storekeeper.serdes.keys.row_keys import LAYOUTS
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.store_definitions import ServedKind

CHANGES = "_changes"
"""What the changes of a store are named in SQL, behind its name."""
OF_CHANGES = ("key", "_key", "_partition", "changed_at", "deleted")
"""The columns of changes in SQL that say which change it is."""
HISTORY = "_history"
"""What a history is named, behind the name of its store."""
CHANGE_COLUMNS = ("_schema_version", "_generation", "_batch", "_batch_ms", "_day")
"""The columns of a history that the store's table does not have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_DIGITS = 19
LAST_MS = 253_402_300_799_999
"""The last millisecond that has a date."""
TECHNICAL = frozenset({*CHANGE_COLUMNS, "_partition", "_offset", "_timestamp_ms", "_key", "_value"})
"""The columns of a history that don't follow from values."""
_FEW_RANGES = 50
KeyRanges = Sequence[tuple[bytes, bytes]]
"""Row keys, each from the first to before the second."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """For which times a history is exact.

    Attributes:
        from_ms: the earliest, epoch milliseconds.
        to_ms: the latest. What was committed after it is not in the history yet.
        gaps: times in between, from and to, for which changes are lost; exact again from the second one on.
        eras: the first time of each era.
    """

    from_ms: int
    to_ms: int
    gaps: Sequence[tuple[int, int]] = ()
    eras: Sequence[int] = ()

    def era(self, at_ms: int) -> int:
        """The first time of the era that a time is in."""
        return max((first for first in self.eras if first <= at_ms), default=0)

    def earliest_exact(self, at_ms: int) -> int | None:
        """The first exact time that isn't before `at_ms`; None if there is none yet."""
        at_ms = max(at_ms, self.from_ms)
        for start, end in sorted(self.gaps):
            if start <= at_ms < end:
                at_ms = end
        return at_ms if at_ms <= self.to_ms else None

    @property
    def last(self) -> int:
        """The last exact time."""
        at_ms = self.to_ms
        for start, end in sorted(self.gaps, reverse=True):
            if start <= at_ms < end:
                at_ms = start - 1
        return at_ms

    def check(self, table: str, at_ms: int) -> None:
        """Lets only exact times pass.

        Raises:
            NotExactError: the history doesn't say what the rows were; the message names the nearest exact time.
        """
        exact_ms = self.earliest_exact(at_ms)
        if exact_ms == at_ms:
            return
        if exact_ms is None:
            msg = (
                f"{table} as of {iso_ms(at_ms)} is not known yet: its history is exact until {iso_ms(self.last)}. Ask "
                f"for an earlier time, or write it on with `storekeeper snapshot create {table}`"
            )
            raise NotExactError(msg)
        why = "begins later" if at_ms < self.from_ms else "lacks changes of that time"
        known = f"the earliest exact time is {iso_ms(exact_ms)}"
        msg = f"{table} as of {iso_ms(at_ms)} is not known, as its history {why}: {known}"
        raise NotExactError(msg)


def rows_of_key(kind: ServedKind, key: bytes) -> tuple[bytes, bytes]:
    """The range of row keys, from the first to before the second, that belong to a key."""
    if kind in LAYOUTS:
        return ended(key), after_key(ended(key))
    return key, key + b"\0"


def changes_until(at_ms: int, era_ms: int = 0) -> str:
    """The predicate for changes up to a time, from the beginning of its era on if that is given.

    It skips the files of other days.
    """
    era = f" AND _day >= DATE '{_at(era_ms):%Y-%m-%d}' AND _batch_ms >= {era_ms}" if era_ms else ""
    return f"_day <= DATE '{_at(at_ms):%Y-%m-%d}' AND _batch_ms <= {at_ms}{era}"


def changes_after(at_ms: int) -> str:
    """The predicate for changes after a time, which skips the files of earlier days."""
    return f"_day >= DATE '{_at(at_ms):%Y-%m-%d}' AND _batch_ms > {at_ms}"


def changes_between_keys(start: bytes, stop: bytes | None) -> str:
    """The predicate for changes of rows with keys from `start` to before `stop`; None leaves that end open."""
    return f"_key >= X'{start.hex()}'" + ("" if stop is None else f" AND _key < X'{stop.hex()}'")


def changes_in(ranges: KeyRanges) -> str:
    """The predicate for changes of rows in some key ranges. For many, it is what is around them all.

    A scan looks for the plan of many for minutes: filter it by `in_ranges_sql` too.
    """
    if not ranges:
        return "false"
    if len(ranges) > _FEW_RANGES:
        return changes_between_keys(min(start for start, _ in ranges), max(stop for _, stop in ranges))
    return " OR ".join(f"({changes_between_keys(*one)})" for one in ranges)


def in_ranges_sql(changes: str, ranges: str) -> str:
    """The changes in the key ranges of a relation with columns `_first` and `_stop`, in DuckDB's SQL."""
    return f"(FROM {changes} SEMI JOIN {ranges} ON _key >= _first AND _key < _stop)"


def fold_sql(changes: str, columns: Sequence[str]) -> str:
    """The rows that changes leave, in DuckDB's SQL.

    Args:
        changes: the relation that has the changes of an era, up to some time.
        columns: those of the result.
    """
    # Aggregates of columns that a query leaves out cost nothing.
    newest = "".join(f", arg_max_null(c.{quoted(name)}, c._offset) AS {quoted(name)}" for name in columns)
    there = f"arg_max(c._value IS NOT NULL, c._offset) AS _is_there{newest}"
    folded = f"SELECT {there} FROM {changes} c GROUP BY c._partition, c._key"  # noqa: S608 (names are quoted)
    return f"SELECT {', '.join(map(quoted, columns))} FROM ({folded}) WHERE _is_there"  # noqa: S608 (as above)


def changes_sql(changes: str, columns: Mapping[str, str], eras: Sequence[int], kind: ServedKind) -> str:
    """What became of each key, for joins with times, in DuckDB's SQL: a row for each key and batch that changed it.

    A key in several partitions has a row of each that changed, as it has in the store's table: see `newest_by_key`.
    Its columns are `key` as text (null if it is none), `_key`, `_partition`, `changed_at`, `deleted`, then `columns`,
    which are null for a deletion. An era that begins without a key, in any partition, deletes it. One that begins with
    it in another partition does not.

    Args:
        changes: the relation that has all changes.
        columns: those that follow from values, and the names under which they are shown.
        eras: the first time of each era.
        kind: the kind of the store. The key of a window, session or version is that in front of its times.
    """
    plain = "".join(f", {quoted(name)}" for name in columns)
    place = "_partition, _key, _batch_ms, _offset, _value IS NOT NULL AS _is_there"
    selects = [f"SELECT {place}{plain} FROM {changes}"]  # noqa: S608 (names are quoted, times are numbers)
    selects += [_ends_sql(changes, columns, before, first) for before, first in pairwise(sorted(eras))]
    newest = "".join(f", arg_max_null({quoted(name)}, _offset) AS {quoted(shown)}" for name, shown in columns.items())
    return f"""
SELECT TRY(decode({key_sql(kind)})) AS key, _key, _partition, make_timestamptz(_batch_ms * 1000) AS changed_at,
    NOT arg_max(_is_there, _offset) AS deleted{newest}
FROM ({" UNION ALL ".join(selects)})
GROUP BY _partition, _key, _batch_ms
"""  # noqa: S608 (as above)


def key_sql(kind: ServedKind) -> str:
    """The key of a row, by its row key, in DuckDB's SQL. Zero bytes in it stay as they are escaped."""
    layout = LAYOUTS.get(kind)
    return "_key" if layout is None else f"unhex(left(hex(_key), -{2 * layout.suffix_bytes + 2}))"


def _ends_sql(changes: str, columns: Iterable[str], before: int, first: int) -> str:
    """The rows that were there at the end of an era, as deletions; not of keys that the next begins with.

    The next generation may have a key in another partition: it was not deleted then.
    """
    nulls = "".join(f", NULL AS {quoted(name)}" for name in columns)
    return f"""
SELECT _partition, _key, {first} AS _batch_ms, -1 AS _offset, false AS _is_there{nulls}
FROM (FROM {changes} WHERE _batch_ms >= {before} AND _batch_ms < {first})
    ANTI JOIN (FROM {changes} WHERE _batch_ms = {first}) USING (_key)
GROUP BY _partition, _key HAVING arg_max(_value IS NOT NULL, _offset)
"""  # noqa: S608 (as above)


def row_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a history that are those of the store's rows."""
    return [name for name in columns if name not in CHANGE_COLUMNS]


def value_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a history that follow from values."""
    return [name for name in columns if name not in TECHNICAL]


def distinct_names(taken: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """New names for columns that are named like others beside them, in any case, as in SQL.

    `Key` beside `key` is `Key_1`, and `Key_2` if there is a column of that name.
    """
    first = {name.lower() for name in taken}
    known = first | {name.lower() for name in columns}
    shown = {name: name for name in columns}
    for name in columns:
        if name.lower() in first:
            shown[name] = next(each for n in range(1, len(columns) + 2) if (each := f"{name}_{n}").lower() not in known)
            known.add(shown[name].lower())
    return shown


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def time_ms(text: str) -> int:
    """Epoch milliseconds, or a time in ISO 8601; without a zone it is UTC.

    Raises:
        InvalidArgumentError: it is neither, or may be both: eight digits. Or it is before 1970.
    """
    digits = len(text) if text.isascii() and text.isdigit() else 0
    if 0 < digits <= _MOST_DIGITS and digits != DATE_DIGITS and int(text) <= MAX_TIMESTAMP_MS:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        at_ms = (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        at_ms = -1
    if at_ms < 0 or text.isdigit():
        msg = f"as_of is epoch milliseconds or a time like 2026-01-31T18:00:00Z, with + as %2B, not {text[:40]!r}"
        raise InvalidArgumentError(msg)
    return at_ms


def iso_ms(at_ms: int) -> str:
    """A time as people read and write it."""
    return _at(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _at(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(at_ms, LAST_MS))
