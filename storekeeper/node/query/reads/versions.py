"""Reads of a versioned store: the version of a key that was valid at a time, and the versions of a span of time.

A look-up goes back as far as the store's versions do: at least as far as its history. A version is never taken for
valid at a time at which another one was: what no longer answers for a time is deleted together, in one batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Self

from storekeeper.names import store_of
from storekeeper.node.query.answers.json_rows import key_json, value_json
from storekeeper.node.query.answers.origins import Origin
from storekeeper.node.query.forwarding import PeerRequest
from storekeeper.node.query.reads.cooperative_scheduler import Steps
from storekeeper.node.query.reads.gather import asking, unpacked
from storekeeper.node.query.reads.pages import PageLimits
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_rows import ReplicaRows
from storekeeper.serdes.keys.versions import version_bounds, version_row_key, version_timestamp_ms
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.row import ReplicaRow
from storekeeper.stores.versioned import value_of_version

_ROWS_A_STEP = 32


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key.

    Attributes:
        value: the value.
        timestamp_ms: when it became valid.
        valid_to_ms: when another version, or a deletion, replaced it; None if none has.
    """

    value: bytes
    timestamp_ms: int
    valid_to_ms: int | None


def version_at(replica: ReplicaRows, key: bytes, as_of_ms: int) -> Version | None:
    """The version of a key that was valid at a time; None if none was. Raises as `ReplicaRows.get` does."""
    with closing(versions(replica, key, as_of_ms, as_of_ms)) as newest:
        version = next(newest, None)
    if version is None:
        replica.check_absence()
    return version


def versions(replica: ReplicaRows, key: bytes, from_ms: int, to_ms: int) -> Generator[Version]:
    """The versions of a key that were valid at some time from `from_ms` to `to_ms`, the newest first.

    Raises as `ReplicaRows.scan` does.
    """
    if from_ms > to_ms:
        return
    valid_to_ms = _replaced_at_ms(replica, key, to_ms)
    with replica.scan(*version_bounds(key, to_ms)) as rows:
        for timestamp_ms, stored in _times(key, rows):
            value = value_of_version(stored)
            if value is not None:
                yield Version(value, timestamp_ms, valid_to_ms)
            if timestamp_ms <= from_ms:
                return
            valid_to_ms = timestamp_ms


def version_json(key: bytes, version: Version) -> bytes:
    """`{"key": …, "value": …, "timestamp_ms": …, "valid_to_ms": …}`, without the last if the version is valid."""
    valid_to = b"" if version.valid_to_ms is None else b',"valid_to_ms":%d' % version.valid_to_ms
    row = (key_json(key), value_json(version.value), version.timestamp_ms, valid_to)
    return b'{%b,%b,"timestamp_ms":%d%b}' % row


@dataclass(frozen=True, slots=True)
class VersionPage:
    """Versions, the newest first, and whether older ones of the asked time follow."""

    versions: Sequence[Version]
    more: bool


@dataclass(frozen=True, slots=True)
class VersionsQuery:
    """The newest of the versions of a key that were valid at some time from `from_ms` to `to_ms`."""

    store: str
    key: bytes
    from_ms: int
    to_ms: int
    limits: PageLimits

    def identity(self) -> bytes:
        """Bytes that are equal for equal queries only. Cursors are bound to them."""
        return f"versions|{store_of(self.store)}|{self.key!r}|{self.from_ms}|{self.to_ms}".encode()

    def before(self, reached: bytes) -> VersionsQuery:
        """The rest of the query behind a page whose oldest version is `reached`, as `VersionPage` gives it."""
        return replace(self, to_ms=int(reached) - 1)

    def within(self, most: PageLimits) -> Self:
        """The query with limits that are at most those of the node that reads."""
        return replace(self, limits=self.limits.within(most))

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As another node reads it."""
        return asking(self, rest)

    def local(self, replicas: Sequence[Replica]) -> Steps[VersionPage]:
        """Reads it."""
        page: list[Version] = []
        size = 0
        with closing(versions(replicas[0], self.key, self.from_ms, self.to_ms)) as rows:
            for version in rows:
                size += len(version.value)
                if len(page) >= self.limits.rows or (page and size > self.limits.max_bytes):
                    return VersionPage(page, more=True)
                page.append(version)
                if len(page) % _ROWS_A_STEP == 0:
                    yield
        return VersionPage(page, more=False)

    def decode(self, body: bytes) -> tuple[VersionPage, list[Origin]]:
        """Reads another node's answer."""
        return unpacked(body, VersionPage)


def _replaced_at_ms(replica: ReplicaRows, key: bytes, at_ms: int) -> int | None:
    """When the first version after a time begins; None if there is none."""
    if at_ms >= MAX_TIMESTAMP_MS:
        return None
    newest_first, behind = version_bounds(key, MAX_TIMESTAMP_MS)[0], version_row_key(key, at_ms)
    with replica.scan(newest_first, behind, reverse=True) as rows:
        return next((timestamp_ms for timestamp_ms, _ in _times(key, rows)), None)


def _times(key: bytes, rows: Iterator[tuple[bytes, ReplicaRow]]) -> Iterator[tuple[int, bytes]]:
    """The times and stored values of a key's versions, without the rows of foreign records."""
    row_bytes = len(version_row_key(key, 0))
    for row_key, row in rows:
        timestamp_ms = version_timestamp_ms(row_key)
        if len(row_key) == row_bytes and timestamp_ms >= 0:
            yield timestamp_ms, row.value
