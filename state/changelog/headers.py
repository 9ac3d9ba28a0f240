"""The headers of a changelog record: who wrote it, in which batch, from which source offsets.

| header            | value (UTF-8)                                                                    |
|-------------------|----------------------------------------------------------------------------------|
| `schema-version`  | version of the value's schema, e.g. `1`; always the first header                 |
| `app`, `store`    | their names                                                                      |
| `generation`      | generation of the app's compute state, from 1                                    |
| `batch-id`        | the app's micro-batch                                                            |
| `source-position` | JSON, source offsets of the batch, end exclusive: `{"pos": {"0": [100, 200]}}`   |

A replayed batch writes the same headers again, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import orjson

from state.changelog.position import Position
from state.errors import ChangelogError

SCHEMA_VERSION = "schema-version"
APP = "app"
STORE = "store"
GENERATION = "generation"
BATCH_ID = "batch-id"
SOURCE_POSITION = "source-position"

SourceRanges = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class ChangelogHeaders:
    """One record's headers, decoded. `source` maps topic and partition to (first offset, end offset exclusive)."""

    app: str
    store: str
    generation: int
    batch_id: int
    source: SourceRanges
    schema_version: int = 1

    def encode(self) -> list[tuple[str, bytes]]:
        """The headers as Kafka takes them. Equal headers give equal bytes."""
        ranges = {topic: {str(p): list(r) for p, r in partitions.items()} for topic, partitions in self.source.items()}
        return [
            (SCHEMA_VERSION, b"%d" % self.schema_version),
            (APP, self.app.encode()),
            (STORE, self.store.encode()),
            (GENERATION, b"%d" % self.generation),
            (BATCH_ID, b"%d" % self.batch_id),
            (SOURCE_POSITION, orjson.dumps(ranges, option=orjson.OPT_SORT_KEYS)),
        ]

    @classmethod
    def decode(cls, headers: Sequence[tuple[str, bytes | None]] | None) -> Self:
        """Reads the headers of a record; unknown ones are ignored.

        Raises:
            ChangelogError: if one is missing or malformed: the record was not written as a changelog record.
        """
        found = dict(headers or ())
        try:
            return cls(
                app=_text(found, APP),
                store=_text(found, STORE),
                generation=int(_text(found, GENERATION)),
                batch_id=int(_text(found, BATCH_ID)),
                source=_ranges(_text(found, SOURCE_POSITION)),
                schema_version=int(_text(found, SCHEMA_VERSION)),
            )
        except (ValueError, TypeError, AttributeError) as error:
            msg = "a changelog record has malformed headers: is something else writing to this topic?"
            raise ChangelogError(msg) from error

    def committed_by(self, committed: Position) -> bool:
        """Whether the batch that wrote the record lies wholly below the `committed` source position.

        A record for which this is False may belong to a batch that was written to the changelog but never finished.
        """
        return all(
            end <= (committed.offset(topic, partition) or 0)
            for topic, partitions in self.source.items()
            for partition, (_, end) in partitions.items()
        )


def schema_version_of(headers: Sequence[tuple[str, bytes | None]] | None) -> int:
    """The schema version alone: what a replica needs of every record that it applies.

    Raises:
        ChangelogError: if there is none, or it is no positive number.
    """
    for name, value in headers or ():
        if name == SCHEMA_VERSION:
            if value is not None and value.isdigit() and int(value) > 0:
                return int(value)
            break
    msg = f"a changelog record has no proper {SCHEMA_VERSION} header: is something else writing to this topic?"
    raise ChangelogError(msg)


def source_ranges_of(headers: Sequence[tuple[str, bytes | None]] | None) -> SourceRanges | None:
    """The input range of a record's batch alone; None if it names none that can be read."""
    for name, value in reversed(headers or ()):
        if name == SOURCE_POSITION:
            return None if value is None else _ranges_or_none(value)
    return None


@lru_cache(maxsize=256)
def _ranges_or_none(value: bytes) -> SourceRanges | None:
    # A batch writes the same bytes with each of its records.
    try:
        ranges = _ranges(value.decode())
    except (ValueError, TypeError, AttributeError):
        return None
    return ranges if all(0 <= start <= end for parts in ranges.values() for start, end in parts.values()) else None


def _text(found: Mapping[str, bytes | None], name: str) -> str:
    value = found.get(name)
    if value is None:
        msg = f"a changelog record has no {name} header: is something else writing to this topic?"
        raise ChangelogError(msg)
    return value.decode()


def _ranges(text: str) -> SourceRanges:
    return {
        str(topic): {int(partition): (int(start), int(end)) for partition, (start, end) in partitions.items()}
        for topic, partitions in orjson.loads(text).items()
    }
