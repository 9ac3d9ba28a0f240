"""The digest of a replica: compares two copies of a partition by a few bytes instead of all rows.

Keys are spread over buckets, each with its own digest. If two digests differ, only the entries of the differing buckets
need to be compared, not the whole partition.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass, field

from storekeeper.node.query.reads.cooperative_scheduler import Steps
from storekeeper.node.replicas.replica import Replica
from storekeeper.stores.row_digest import BUCKETS, bucket_of, entry_hash, moved, to_hex

_ROWS_A_STEP = 64


@dataclass(slots=True)
class ReplicaDigest:
    """A replica's content at a changelog offset. `entries` are (key, hash of the entry), of wanted buckets only."""

    offset: int
    rows: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    entries: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def digest(self) -> int:
        """The digest of all rows, comparable to that of a snapshot's manifest."""
        return moved(0, added=sum(self.buckets), removed=0)


def digest_of(replica: Replica, wanted: Collection[int] = ()) -> Steps[ReplicaDigest]:
    """Reads all rows of a replica, piece by piece, all as of the first step. Raises as `Replica.get` does."""
    with replica.scan_at_offset() as (offset, rows):
        found = ReplicaDigest(offset)
        for key, row in rows:
            bucket, entry = bucket_of(key), entry_hash(key, row.value)
            found.rows += 1
            found.buckets[bucket] = moved(found.buckets[bucket], added=entry, removed=0)
            if bucket in wanted:
                found.entries.append((key, entry))
            if found.rows % _ROWS_A_STEP == 0:
                yield
    return found


def entries_as_json(found: ReplicaDigest) -> list[tuple[str, str]]:
    """The entries as (base64url of the key, hexadecimal hash)."""
    return [(base64.urlsafe_b64encode(key).decode().rstrip("="), to_hex(entry)) for key, entry in found.entries]
