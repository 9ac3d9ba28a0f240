"""The last resort: when no replica can answer, the newest snapshot answers, if the caller allows that much staleness.

A snapshot is read once per version, in a thread. Its rows are first checked against the digests of its manifest; if
they differ, it isn't used. Its staleness counts from its newest record.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from storekeeper.changelog.partitioner import partition_for
from storekeeper.clock import Clock
from storekeeper.errors import StorageError
from storekeeper.locations import Location
from storekeeper.node.query.answers.answer import (
    COMPLETE,
    JSON,
    OFFSET,
    PARTITION,
    POSITION,
    ROLE,
    SERVED_BY,
    STALENESS,
    Answer,
    UnknownKeyError,
    problem_of,
)
from storekeeper.node.query.answers.json_rows import row_json
from storekeeper.protocol.freshness import FreshnessRequirement, Stale
from storekeeper.protocol.position_token import PositionToken

if TYPE_CHECKING:
    # They load the reader of Delta tables, which is an extra.
    from storekeeper.snapshots.loaded import LoadedSnapshot
    from storekeeper.snapshots.manifest import SnapshotManifest

log = structlog.get_logger(__name__)

ROLE_SNAPSHOT = "snapshot"
_CHECK_EVERY_S = 5.0


@dataclass(slots=True)
class _Held:
    """One store's snapshot, when it was last looked for, and the search under way."""

    snapshot: LoadedSnapshot | None = None
    checked_at_s: float = float("-inf")
    search: asyncio.Task[None] | None = None


class SnapshotFallback:
    """Answers from snapshots. Belongs to one event loop.

    Args:
        node: this node's name.
        folder: the folder of the Delta tables, one a store.
        seals: the folder of their seals.
        topics: the changelog topic that a store is answered from.
        clock: for staleness.
        max_rows: larger snapshots are not read: they live in memory.
        shown: how a store's value is shown.
        newest: the manifest of the newest snapshot of a table, and a file with its seal. By default, that of the seal.
        load: see `storekeeper/snapshots/loaded.py`.
    """

    def __init__(
        self,
        node: str,
        folder: Location,
        seals: Location,
        topics: Callable[[str], str | None],
        clock: Clock,
        *,
        max_rows: int = 2_000_000,
        shown: Callable[[str, bytes], bytes] = lambda _, value: value,
        newest: Callable[[Location, Location], SnapshotManifest | None] | None = None,
        load: Callable[[Location, SnapshotManifest], LoadedSnapshot] | None = None,
    ) -> None:
        self._node = node
        self._folder = folder
        self._seals = seals
        self._topics = topics
        self._clock = clock
        self._max_rows = max_rows
        self._shown = shown
        self._newest = newest
        self._load = load
        self._held: dict[str, _Held] = {}
        self._lock = asyncio.Lock()

    async def answer(self, store: str, key: bytes, requirement: FreshnessRequirement) -> Answer | None:
        """The row of a key as of the newest snapshot; None if there is no snapshot that meets the requirement."""
        if not requirement.snapshot_ok or requirement.max_staleness_ms is None:
            return None
        snapshot = await self._current(store)
        if snapshot is None:
            return None
        manifest = snapshot.manifest
        partition = partition_for(key, len(manifest.changelog_offsets))
        staleness_ms = max(0, self._clock.now_ms() - snapshot.newest_ms)
        offset = manifest.changelog_offsets[partition]
        if not _meets(requirement, manifest, partition, staleness_ms):
            return None
        position = PositionToken.of_changelog(manifest.changelog_topic, partition, offset)
        headers = [
            (SERVED_BY, self._node.encode()),
            (ROLE, ROLE_SNAPSHOT.encode()),
            (PARTITION, b"%d" % partition),
            (OFFSET, b"%d" % offset),
            (STALENESS, b"%d" % staleness_ms),
            (POSITION, position.encode().encode()),
            (COMPLETE, b"true"),
        ]
        value = snapshot.rows.get(key)
        if value is None:
            msg = f"the snapshot of store {store} has no key {key[:200].decode(errors='replace')!r}"
            return Answer.problem(problem_of(UnknownKeyError(msg)), *headers)
        return Answer(200, [JSON, *headers], row_json(key, self._shown(store, value)))

    async def _current(self, store: str) -> LoadedSnapshot | None:
        held = self._held.setdefault(store, _Held())
        if held.search is None and self._clock.monotonic_s() - held.checked_at_s >= _CHECK_EVERY_S:
            held.search = asyncio.create_task(self._load_newest(store, held))
        if held.search is not None:
            # A thread can't be ended: if a request stops waiting for it, no second thread must start beside it.
            await asyncio.shield(held.search)
        return held.snapshot

    async def _load_newest(self, store: str, held: _Held) -> None:
        try:
            async with self._lock:
                held.snapshot = await asyncio.to_thread(self._read, store, held.snapshot)
        except StorageError as error:
            log.warning("snapshot_not_read", store=store, error=str(error))
        except ImportError:
            log.warning("snapshot_not_read", store=store, error="deltalake isn't installed")
        finally:
            held.checked_at_s = self._clock.monotonic_s()
            held.search = None

    def _read(self, store: str, held: LoadedSnapshot | None) -> LoadedSnapshot | None:
        """Runs in a thread: returns `held` if it is still the newest version, otherwise reads that one."""
        if self._newest is None or self._load is None:
            # The reader of Delta tables takes a second to load, and most nodes never need it.
            self._newest = importlib.import_module("storekeeper.snapshots.seal").sealed_manifest
            self._load = importlib.import_module("storekeeper.snapshots.loaded").load_snapshot
        path = self._folder / store
        manifest = self._newest(path, self._seals / f"{store}.json")
        if manifest is None or manifest.changelog_topic != self._topics(store):
            return None
        if held is not None and held.manifest.delta_version == manifest.delta_version:
            return held
        if manifest.row_count > self._max_rows:
            msg = f"the snapshot of {store} has {manifest.row_count} rows, over the {self._max_rows} kept in memory"
            raise StorageError(msg)
        return self._load(path, manifest)


def _meets(requirement: FreshnessRequirement, manifest: SnapshotManifest, partition: int, staleness_ms: int) -> bool:
    if requirement.max_lag is not None or requirement.stale is Stale.NO:
        return False
    if requirement.max_staleness_ms is None or staleness_ms > requirement.max_staleness_ms:
        return False
    if requirement.position is None:
        return True
    shown = requirement.position.changelog.offset(manifest.changelog_topic, partition)
    reached = shown is None or manifest.changelog_offsets[partition] >= shown
    return reached and manifest.source_offsets.reaches(requirement.position.source)
