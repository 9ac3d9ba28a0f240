"""`python -m spark_apps.maintenance tables`: joining small files and removing old ones of a store's snapshots."""

from __future__ import annotations

import threading
from typing import Annotated

import orjson
import typer

from spark_apps.lease import Lease
from spark_apps.maintenance.settings import MaintenanceSettings
from spark_apps.registry import store_named
from state.clock import SystemClock
from state.maintenance.expiry import DAY_MS
from state.maintenance.table_upkeep import keep_up, promised_versions


def tables(store: Annotated[str, typer.Argument(help="The store's name.")]) -> None:
    """Maintain the table of a store's snapshots; every promised version stays readable."""
    settings, spec, clock = MaintenanceSettings(), store_named(store), SystemClock()
    with Lease(settings.lease_file(f"snapshot-{spec.name}"), clock=clock, wait=threading.Event().wait) as lease:
        lease.acquire(settings.lease_timeout_s)
        now_ms = clock.now_ms()
        promised = promised_versions(settings.run_dir / "promises" / spec.table_name, now_ms=now_ms)
        done = keep_up(
            settings.delta_table(spec.table_name),
            promised,
            now_ms=now_ms,
            history_ms=round(settings.table_history_days * DAY_MS),
        )
    typer.echo(orjson.dumps({"table": spec.table_name, "missing": True} if done is None else done.as_dict()).decode())
