"""`python -m spark_apps.maintenance restore-snapshot`: putting a store's table back to its last snapshot."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import orjson
import typer

from spark_apps.generations.live import live_store, store_in
from spark_apps.runtime.lease import Lease
from spark_apps.settings import AppSettings
from state.clock import SystemClock
from state.errors import ConfigurationError
from state.maintenance.table_restore import restore_snapshot
from state.snapshots.delta_log import newest_manifest


def restore(store: Annotated[str, typer.Argument(help="The store's name.")]) -> None:
    """Put a store's table back to its last snapshot; a sound one is left alone."""
    typer.echo(orjson.dumps(_restored(store, AppSettings.of_platform())).decode())


def _restored(store: str, settings: AppSettings) -> dict[str, Any]:
    spec, _ = live_store(store, settings)
    path = settings.delta_table(spec.table_name)
    clock = SystemClock()
    with Lease(settings.lease_file(f"snapshot-{store}"), clock=clock, wait=threading.Event().wait) as lease:
        lease.acquire()
        manifest = newest_manifest(path)
        if manifest is None:
            msg = f"there is no snapshot of {store} at {path} to go back to"
            raise ConfigurationError(msg)
        version = restore_snapshot(path, manifest, store_in(manifest, spec, settings).value_fields)
    return {"store": store, "snapshot": manifest.delta_version, "restored": version is not None, "version": version}
