"""Histories as the snapshot job writes them, made of random changes; and a store's rows at any time, by replay."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from storekeeper.changelog.position import Position
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.columns import snapshot_schema
from storekeeper.snapshots.history import HistoryManifest
from storekeeper.stores.store_definitions import ServedKind

COLUMNS = {"Card": "string", "Points": "decimal(18,4)", "Visits": "int"}
START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
RowKey = tuple[int, bytes]

_CHANGE_SCHEMA = [
    ("_schema_version", pa.int32()),
    ("_generation", pa.int32()),
    ("_batch", pa.int64()),
    ("_batch_ms", pa.int64()),
    ("_day", pa.date32()),
]
SCHEMA = pa.schema([*snapshot_schema(COLUMNS), *(pa.field(*each) for each in _CHANGE_SCHEMA)])


@dataclass
class Produced:
    """What an app has produced: its batches in their order, each with all its changes."""

    kind: ServedKind = ServedKind.KEY_VALUE
    generation: int = 1
    batch: int = 0
    now_ms: int = START_MS
    records: list[dict[str, object]] = field(default_factory=list)
    states: list[tuple[int, dict[RowKey, bytes]]] = field(default_factory=list)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    eras: list[int] = field(default_factory=lambda: [START_MS])

    @property
    def rows(self) -> dict[RowKey, bytes]:
        """The rows now."""
        return self.states[-1][1] if self.states else {}

    def commit(self, changes: Sequence[tuple[int, bytes, bytes | None]], *, after_ms: int = 60_000) -> None:
        """A batch with these changes: partition, row key, value or None for a deletion."""
        self.now_ms += after_ms
        self.batch += 1
        rows = dict(self.rows)
        for partition, key, value in changes:
            self._record(partition, key, value)
            if value is None:
                rows.pop((partition, key), None)
            else:
                rows[partition, key] = value
        self.states.append((self.now_ms, rows))

    def hand_over(self, rows: Mapping[RowKey, bytes], *, after_ms: int = 60_000) -> None:
        """A new generation takes over, with these rows."""
        self.now_ms += after_ms
        self.generation += 1
        self.batch = 1
        self.eras.append(self.now_ms)
        for (partition, key), value in rows.items():
            self._record(partition, key, value)
        self.states.append((self.now_ms, dict(rows)))

    def at(self, at_ms: int) -> dict[RowKey, bytes]:
        """The rows after the last batch until a time."""
        return next((rows for batch_ms, rows in reversed(self.states) if batch_ms <= at_ms), {})

    def era(self, at_ms: int) -> int:
        """The first time of the era that a time is in."""
        return max(first for first in self.eras if first <= at_ms)

    def table(self) -> pa.Table:
        """All changes as the history has them."""
        return pa.Table.from_pylist(self.records, SCHEMA)

    def write(
        self, root: Path, name: str, *, appends: int = 1, names: Mapping[str, str] | None = None, **facts: Any
    ) -> None:
        """Writes the history of table `name`, in some commits, and the table with the rows now.

        `names` are other names of columns.
        """
        told = HistoryManifest(
            store=name,
            app="app",
            kind=self.kind,
            changelog_topic="log",
            generation=self.generation,
            changelog_offsets=dict.fromkeys(range(3), 1),
            source_offsets=Position({"pos": {0: self.now_ms}}),
            batch=self.batch,
            exact_from_ms=START_MS,
            exact_to_ms=self.now_ms,
            gaps=(),
            eras=tuple(self.eras),
            totals={},
            columns=COLUMNS,
            read_at_ms=self.now_ms,
        )
        metadata = CommitProperties(custom_metadata={"userMetadata": replace(told, **facts).to_json()})
        called = [(names or {}).get(column, column) for column in SCHEMA.names]
        changes, path = self.table().rename_columns(called), root / f"{name}{HISTORY}"
        step = max(1, -(-changes.num_rows // appends))
        for start in range(0, max(1, changes.num_rows), step):
            part = changes.slice(start, step)
            write_deltalake(path, part, mode="append", partition_by=["_day"], commit_properties=metadata)
        newest = [
            next(one for one in reversed(self.records) if (one["_partition"], one["_key"]) == place)
            for place in self.rows
        ]
        rows = pa.Table.from_pylist(newest, SCHEMA).rename_columns(called)
        write_deltalake(root / name, rows.select(called[: len(snapshot_schema(COLUMNS))]))

    def _record(self, partition: int, key: bytes, value: bytes | None) -> None:
        place = (self.generation, partition)
        offset = self.offsets[place] = self.offsets.get(place, -1) + 1
        self.records.append(
            {
                **fields_of(value),
                "_partition": partition,
                "_offset": offset,
                "_timestamp_ms": self.now_ms - 5,
                "_key": key,
                "_value": value,
                "_schema_version": 1,
                "_generation": self.generation,
                "_batch": self.batch,
                "_batch_ms": self.now_ms,
                "_day": datetime.datetime.fromtimestamp(self.now_ms / 1000, datetime.UTC).date(),
            }
        )


def value_of(card: str, points: str, visits: int) -> bytes:
    """A value with these fields."""
    return b'{"Card":"%b","Points":%b,"Visits":%d}' % (card.encode(), points.encode(), visits)


def fields_of(value: bytes | None) -> dict[str, object]:
    """The typed columns of a value."""
    if value is None:
        return dict.fromkeys(COLUMNS)
    fields = orjson.loads(value)
    return {**fields, "Points": Decimal(str(fields["Points"])).quantize(Decimal("0.0001"))}


def played(
    seed: int,
    keys: Sequence[bytes],
    *,
    batches: int,
    kind: ServedKind = ServedKind.KEY_VALUE,
    stray: float = 0.1,
) -> Produced:
    """A random app: batches that set and delete rows of these keys in 3 partitions; sometimes a new generation.

    `stray` of the changes are in any partition, the others in their key's own.
    """
    drawn, produced = random.Random(seed), Produced(kind)
    for _ in range(batches):
        produced.commit(list(_changes(drawn, keys, stray)), after_ms=drawn.choice([1, 1000, 3_600_000, 50_000_000]))
        if drawn.random() < 0.1:
            kept = {place: value for place, value in produced.rows.items() if drawn.random() < 0.8}
            produced.hand_over(kept)
    return produced


def _changes(drawn: random.Random, keys: Sequence[bytes], stray: float) -> Iterator[tuple[int, bytes, bytes | None]]:
    for _ in range(drawn.randrange(6)):
        key = drawn.choice(keys)
        partition = drawn.randrange(3) if drawn.random() < stray else len(key) % 3
        yield partition, key, None if drawn.random() < 0.3 else _value(drawn)


def _value(drawn: random.Random) -> bytes:
    return value_of(f"c{drawn.randrange(100)}", f"{drawn.randrange(10_000) / 4:.2f}", drawn.randrange(1000))
