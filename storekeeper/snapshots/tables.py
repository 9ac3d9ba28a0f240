"""Upkeep of the table of a store's snapshots, and its way back to the last snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.engine.runtime.lease import Lease, job_lease
from storekeeper.errors import ConfigurationError
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.settings import SnapshotSettings
from storekeeper.snapshots.table_restore import restore_snapshot
from storekeeper.snapshots.table_upkeep import keep_up, promised_versions
from storekeeper.snapshots.values import values_of


def optimized(store: str, settings: SnapshotSettings) -> dict[str, Any]:
    """Joins small files and removes old ones; every promised version stays readable. Returns what was done."""
    with _table_lease(store, settings):
        now_ms = SystemClock().now_ms()
        promised = promised_versions(settings.run_dir / "promises" / store, now_ms=now_ms)
        done = keep_up(
            settings.delta_table(store),
            promised,
            now_ms=now_ms,
            history_ms=round(settings.table_history_days * DAY_MS),
        )
    return {"table": store, "missing": True} if done is None else done.as_dict()


def restored(store: StoreSpec, as_in: Callable[[SnapshotManifest], StoreSpec], settings: AppSettings) -> dict[str, Any]:
    """Puts the table back to its last snapshot; a sound one is left alone. Returns what was done.

    Args:
        store: the store, in the live generation of its app.
        as_in: the store in the generation of a snapshot.
        settings: where the tables are.

    Raises:
        ConfigurationError: there is no snapshot to go back to.
    """
    path = settings.delta_table(store.table_name)
    with _table_lease(store.name, settings):
        manifest = newest_manifest(path)
        if manifest is None:
            msg = f"there is no snapshot of {store.name} at {path} to go back to"
            raise ConfigurationError(msg)
        version = restore_snapshot(path, manifest, values_of(as_in(manifest), settings))
    return {
        "store": store.name,
        "snapshot": manifest.delta_version,
        "restored": version is not None,
        "version": version,
    }


@contextmanager
def _table_lease(store: str, settings: AppSettings) -> Iterator[None]:
    with Lease(
        settings.lease_file(job_lease(store, "snapshot")), clock=SystemClock(), wait=threading.Event().wait
    ) as lease:
        lease.acquire()
        yield
