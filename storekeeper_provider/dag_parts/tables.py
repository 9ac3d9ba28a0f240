"""What stands for the Delta tables that a run updates, so that other DAGs can follow them."""

from __future__ import annotations

from airflow.sdk import AssetAlias

UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""
UPDATED_TABLES = AssetAlias("delta_published", group="delta")
"""Stands for the tables that a run of DAG `check_tables` or `release_quarantined` updates."""
