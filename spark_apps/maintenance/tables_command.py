"""`python -m spark_apps.maintenance tables`: joining small files and removing old ones of a store's snapshots."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import orjson
import typer

from spark_apps.maintenance.settings import MaintenanceSettings
from spark_apps.runtime.lease import Lease
from state.clock import SystemClock
from state.maintenance.expiry import DAY_MS
from state.maintenance.table_upkeep import keep_up, promised_versions


def tables(store: Annotated[str, typer.Argument(help="The store's name.")]) -> None:
    """Maintain the table of a store's snapshots; every promised version stays readable."""
    typer.echo(orjson.dumps(_kept_up(store, MaintenanceSettings.of_platform())).decode())


def _kept_up(table: str, settings: MaintenanceSettings) -> dict[str, Any]:
    clock = SystemClock()
    with Lease(settings.lease_file(f"snapshot-{table}"), clock=clock, wait=threading.Event().wait) as lease:
        lease.acquire()
        now_ms = clock.now_ms()
        promised = promised_versions(settings.run_dir / "promises" / table, now_ms=now_ms)
        done = keep_up(
            settings.delta_table(table),
            promised,
            now_ms=now_ms,
            history_ms=round(settings.table_history_days * DAY_MS),
        )
    return {"table": table, "missing": True} if done is None else done.as_dict()
