"""Checks the newest snapshot of a store against its suite. It needs no Spark: DuckDB reads the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import great_expectations as gx
from deltalake import DeltaTable
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations import Expectation

from quality.errors import ValidationError
from quality.snapshot_suite import fell_column, growing_fields, snapshot_expectations
from spark_apps.generations.live import store_in
from spark_apps.settings import AppSettings
from spark_apps.spec import StoreSpec
from state.maintenance.check_verdict import CheckVerdict
from state.snapshots.delta_log import newest_manifest
from state.snapshots.manifest import SnapshotManifest
from state.snapshots.vouched import newest_snapshot

if TYPE_CHECKING:
    import pandas as pd

CHECK = "snapshot"
_COUNTS = {"result_format": "BASIC", "exclude_unexpected_values": True, "partial_unexpected_count": 0}


def check_snapshot(store: StoreSpec, path: Path, now_ms: int, settings: AppSettings) -> CheckVerdict | None:
    """The verdict on the newest snapshot at `path`, of any generation; None if there is no snapshot.

    Raises:
        ValidationError: an expectation couldn't be evaluated, so there is no verdict.
        SnapshotDamagedError: the table isn't as its newest snapshot left it.
    """
    manifest = newest_snapshot(path)
    if manifest is None:
        return None
    store = store_in(manifest, store, settings)
    before = _version_before(path, manifest)
    frame = measured(store, path, manifest.delta_version, before)
    reasons = tuple(_reasons(frame, snapshot_expectations(store)))
    details = {"rows": len(frame), "delta_version": manifest.delta_version, "compared_with_version": before}
    return CheckVerdict(CHECK, store.name, not reasons, reasons, now_ms, details)


def measured(store: StoreSpec, path: Path, version: int, before: int | None) -> pd.DataFrame:
    """The value fields of every row at `version`, and which growing ones are less than they were at `before`."""
    names = [item.name for item in store.value_fields]
    growing = growing_fields(store)
    with duckdb.connect() as session:
        session.register("newest", _rows(path, version, ["_key", *names]))
        plain = ", ".join(f'newest."{name}"' for name in names)
        if before is None or not growing:
            nothing = "".join(f', 0 AS "{fell_column(name)}"' for name in growing)
            return session.execute(f"SELECT {plain}{nothing} FROM newest").df()  # noqa: S608 (names of declared fields)
        session.register("earlier", _rows(path, before, ["_key", *growing]))
        fell = ", ".join(
            f'coalesce((newest."{name}" < earlier."{name}")::INT, 0) AS "{fell_column(name)}"' for name in growing
        )
        return session.execute(
            f"SELECT {plain}, {fell} FROM newest LEFT JOIN earlier USING (_key)"  # noqa: S608 (as above)
        ).df()


def _rows(path: Path, version: int, columns: list[str]) -> Any:
    return DeltaTable(str(path), version=version).to_pyarrow_table(columns=columns)


def _version_before(path: Path, newest: SnapshotManifest) -> int | None:
    """The version of the snapshot before; None if there is none, it was empty, or had another changelog topic."""
    found = newest_manifest(path, before=newest.delta_version)
    alike = found is not None and found.row_count > 0 and found.changelog_topic == newest.changelog_topic
    return found.delta_version if alike and found is not None else None


def _reasons(frame: pd.DataFrame, expectations: list[Expectation]) -> list[str]:
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas("snapshots").add_dataframe_asset("snapshot")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    reasons = []
    for expectation in expectations:
        result = batch.validate(expectation, result_format=_COUNTS)
        if any(detail.get("raised_exception") for detail in _exceptions(result.exception_info)):
            msg = f"{expectation.notes!r} couldn't be evaluated on the snapshot: has the store's schema changed?"
            raise ValidationError(msg)
        if not result.success:
            reasons.append(f"{expectation.notes} Failing rows: {result.result.get('unexpected_count')}.")
    return reasons


def _exceptions(info: Any) -> list[Mapping[str, Any]]:
    return [info] if "raised_exception" in (info or {}) else list((info or {}).values())
