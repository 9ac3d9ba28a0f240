"""The manifest: what a snapshot of a store is, written into the user metadata of the Delta commit that made it.

A JSON object whose keys are the fields of `SnapshotManifest`, partitions as text, digests as 16 hexadecimal digits:

    {"app": "pos", "batch_ms": 1760000000000, "by_schema": false, "changelog_id": "Zq3…",
     "changelog_offsets": {"0": 1200},
     "changelog_topic": "pos-rewards-changelog", "columns": [["Tier", "string"]], "delta_version": 3,
     "digests": {"0": "00d5a02f6c1be2f7"}, "generation": 1, "kind": "keyvalue", "one_version": true,
     "row_count": 811, "schema_version": 1,
     "score_field": null, "source_offsets": {"pos": {"0": 4400}}, "store": "rewards", "writer": "storekeeper.snapshots"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from storekeeper.changelog.position import Position
from storekeeper.errors import SerializationError
from storekeeper.stores.row_digest import from_hex, to_hex
from storekeeper.stores.store_definitions import ServedKind


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The content of a store after a batch of its app: neither a record more nor one less.

    `changelog_offsets` and `source_offsets` are next offsets: all records below them are in the snapshot. Reading the
    sources on from `source_offsets` continues exactly where the snapshot ends. `digests` are those of its rows, per
    changelog partition. `columns` are the columns that follow from values, SQL type by name, in their order.
    `by_schema` says whether values are by schemas of a registry. `batch_ms` is the time up to which the store's history
    is in the rows, in epoch milliseconds; 0 before the first batch. `kind` and `score_field` are those of the spec.
    `changelog_id` is the broker's id of the changelog. `one_version` says whether every row has `schema_version`.
    """

    store: str
    app: str
    generation: int
    schema_version: int
    changelog_topic: str
    changelog_offsets: Mapping[int, int]
    source_offsets: Position
    row_count: int
    digests: Mapping[int, int]
    writer: str
    delta_version: int
    columns: Mapping[str, str] = field(default_factory=dict)
    by_schema: bool = False
    batch_ms: int = 0
    kind: ServedKind = ServedKind.KEY_VALUE
    score_field: str | None = None
    changelog_id: str = ""
    one_version: bool = False

    def to_json(self) -> str:
        """The manifest as JSON. Equal manifests give equal text."""
        return orjson.dumps(self.as_dict(), option=orjson.OPT_SORT_KEYS).decode()

    def as_dict(self) -> dict[str, Any]:
        """The manifest as JSON's own types."""
        return {
            "store": self.store,
            "app": self.app,
            "generation": self.generation,
            "schema_version": self.schema_version,
            "changelog_topic": self.changelog_topic,
            "changelog_offsets": {str(partition): self.changelog_offsets[partition] for partition in self.partitions},
            "source_offsets": orjson.loads(self.source_offsets.to_json()),
            "row_count": self.row_count,
            "digests": {str(partition): to_hex(value) for partition, value in sorted(self.digests.items())},
            "writer": self.writer,
            "delta_version": self.delta_version,
            "columns": [[name, kind] for name, kind in self.columns.items()],
            "by_schema": self.by_schema,
            "batch_ms": self.batch_ms,
            "kind": self.kind.value,
            "score_field": self.score_field,
            "changelog_id": self.changelog_id,
            "one_version": self.one_version,
        }

    @property
    def partitions(self) -> list[int]:
        """The changelog's partitions that the snapshot covers, in ascending order."""
        return sorted(self.changelog_offsets)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The manifest in such JSON; keys of later versions are ignored.

        Raises:
            SerializationError: it is not a manifest.
        """
        try:
            content = orjson.loads(text)
            return cls(
                store=content["store"],
                app=content["app"],
                generation=content["generation"],
                schema_version=content["schema_version"],
                changelog_topic=content["changelog_topic"],
                changelog_offsets={int(p): int(offset) for p, offset in content["changelog_offsets"].items()},
                source_offsets=Position.from_json(orjson.dumps(content["source_offsets"])),
                row_count=content["row_count"],
                digests={int(p): from_hex(digest) for p, digest in content["digests"].items()},
                writer=content["writer"],
                delta_version=content["delta_version"],
                columns={str(name): str(kind) for name, kind in content["columns"]},
                by_schema=content["by_schema"],
                batch_ms=content["batch_ms"],
                kind=ServedKind(content["kind"]),
                score_field=content["score_field"],
                changelog_id=content["changelog_id"],
                one_version=content["one_version"],
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = "this is not a snapshot manifest: was the table written by something else?"
            raise SerializationError(msg) from error
