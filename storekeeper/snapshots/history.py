"""The history of a store: a Delta table with every committed record of its changelog, deletions included.

Table `<store>_history` beside the store's table. Its columns are those of the store's table and `CHANGE_COLUMNS`. The
time axis is `_batch_ms`, the time of the batch: the same for all partitions of all stores of an app. A commit adds
records whose times are later than those of all commits before it, so it changes nothing of what the store was.

An *era* is a stretch of the history that can be folded by itself: its first commit has all records of a changelog. One
begins with the history, with another changelog (a new generation, or the way back to an old one), where another one was
live since the commit before, and where deletions may be gone from the changelog. The store at a time is the newest
record per `_partition` and `_key` of the time's era up to then, without those whose `_value` is null.

The manifest is the user metadata of the newest commit, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import orjson
import pyarrow as pa

from storekeeper.changelog.position import Position
from storekeeper.delta_files import is_table
from storekeeper.errors import SerializationError
from storekeeper.locations import Location
from storekeeper.schemas.arrow_types import arrow_type
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.columns import PLACE_MEANINGS
from storekeeper.snapshots.delta_log import commits, damaged
from storekeeper.stores.store_definitions import ServedKind

CHANGE_COLUMNS = {
    "_key": "binary",
    "_value": "binary",
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp_ms": "bigint",
    "_schema_version": "int",
    "_generation": "int",
    "_batch": "bigint",
    "_batch_ms": "bigint",
    "_day": "date",
}
"""SQL type by name of the columns behind those that follow from values."""
CHANGE_MEANINGS = PLACE_MEANINGS | {
    "_value": "The row's value as bytes, as the changelog has it; null: the row was deleted.",
    "_schema_version": "The version of the value's schema.",
    "_generation": "The generation of the app that wrote the record.",
    "_batch": "The batch that wrote the record.",
    "_batch_ms": "The time of the batch, in epoch milliseconds: the same for all partitions and stores of the app.",
    "_day": "The day of the batch's time, in UTC.",
}
"""What these columns hold, for the catalogue."""
PARTITIONED_BY = "_day"
TaskProgress = Mapping[str, Mapping[str, str]]
"""What tasks need to go on after a batch, beside their rows: stream times and timers, as JSON by slot and partition."""
_OF_CATALOGUES = {"commitInfo", "metaData"}
"""What commits of comments are made of."""


def history_of(table: Location) -> Location:
    """The folder of the history of a store, from that of the store's table."""
    return table.with_name(table.name + HISTORY)


def history_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The columns of a history, in their order; `columns` are those that follow from values, by SQL type."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in {**columns, **CHANGE_COLUMNS}.items()])


@dataclass(frozen=True, slots=True)
class HistoryManifest:
    """What a history holds.

    Attributes:
        store, app, kind: whose it is.
        changelog_topic: the changelog that its newest era is of.
        changelog_id: the broker's id of it.
        progress: that of the app's tasks after `batch`; empty if it was not known.
        generation: that changelog's generation.
        live_from: the batch from which that generation was live without a break.
        changelog_offsets: next offsets by partition: all records below them are in the history.
        source_offsets: where the app's input goes on.
        batch: the last batch in it.
        exact_from_ms: the earliest time for which it is exact, unless a gap begins there.
        exact_to_ms: the latest: the time of `batch`, or later if the app was idle after it.
        gaps: times from and to, the end exclusive, for which it is not exact: compaction removed records before they
            were read.
        eras: the first time of each era, ascending.
        totals: by partition, how many changes of batches there were; see `changelog.headers`.
        hides: what the last gap needs to end: offsets by partition that the history has to reach.
        columns: the columns that follow from values, SQL type by name.
        read_at_ms: when the run that wrote it began.
        sorted_before: the days before this one, in ISO 8601, are sorted by key.
        erased: by partition, the offset behind the last change that an erasure has dropped from the newest era.
    """

    store: str
    app: str
    kind: ServedKind
    changelog_topic: str
    generation: int
    changelog_offsets: Mapping[int, int]
    source_offsets: Position
    batch: int
    exact_from_ms: int
    exact_to_ms: int
    gaps: tuple[tuple[int, int], ...]
    eras: tuple[int, ...]
    totals: Mapping[int, int]
    columns: Mapping[str, str]
    read_at_ms: int
    hides: Mapping[int, int] = field(default_factory=dict)
    sorted_before: str = ""
    changelog_id: str = ""
    live_from: int = 0
    progress: TaskProgress = field(default_factory=dict)
    erased: Mapping[int, int] = field(default_factory=dict)

    def era(self, at_ms: int) -> int:
        """The first time of the era that a time is in; the history's first time for one before."""
        return max((first for first in self.eras if first <= at_ms), default=self.eras[0])

    def to_json(self) -> str:
        """The manifest as JSON. Equal manifests give equal text."""
        fields = asdict(self) | {
            "source_offsets": orjson.Fragment(self.source_offsets.to_json()),
            "columns": [[name, kind] for name, kind in self.columns.items()],
        }
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The manifest in such JSON.

        Raises:
            SerializationError: it is not a manifest.
        """
        try:
            fields: dict[str, Any] = orjson.loads(text)
            numbers = {
                name: {int(partition): int(number) for partition, number in fields[name].items()}
                for name in ("changelog_offsets", "totals", "hides", "erased")
            }
            return cls(**fields | numbers | {
                "kind": ServedKind(fields["kind"]),
                "source_offsets": Position.from_json(orjson.dumps(fields["source_offsets"])),
                "gaps": tuple((int(start), int(end)) for start, end in fields["gaps"]),
                "eras": tuple(map(int, fields["eras"])),
                "columns": {str(name): str(kind) for name, kind in fields["columns"]},
            })  # fmt: skip
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = "this is not the manifest of a history: was the table written by something else?"
            raise SerializationError(msg) from error


@dataclass(frozen=True, slots=True)
class HistoryVersion:
    """The newest version of a history, and its manifest."""

    version: int
    manifest: HistoryManifest


def history_manifests(path: Location, *, upto: int) -> Iterator[HistoryManifest]:
    """The manifests of the commits up to a version, newest first, as far back as the log reaches.

    Raises:
        SnapshotDamagedError: the log is damaged.
    """
    for commit in commits(path):
        if commit.version <= upto:
            with suppress(SerializationError):
                yield HistoryManifest.from_json(commit.info.get("userMetadata") or "")


def newest_history(path: Location, *, at: int | None = None) -> HistoryVersion | None:
    """The newest version of the history at `path`, or the newest that is not behind `at`; None if there is none.

    Raises:
        SnapshotDamagedError: the log is damaged, or another program has changed what the newest commit left.
    """
    if not is_table(path):
        return None
    version: int | None = None
    for commit in commits(path):
        if at is not None and commit.version > at:
            continue
        version = commit.version if version is None else version
        with suppress(SerializationError):
            return HistoryVersion(version, HistoryManifest.from_json(commit.info.get("userMetadata") or ""))
        if not {name for name, _ in commit.actions} <= _OF_CATALOGUES:
            raise damaged(path, f"was changed by something else: version {commit.version}")
    raise damaged(path, "was not written by a snapshot")
