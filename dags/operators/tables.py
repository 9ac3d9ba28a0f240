"""The Delta tables as Airflow assets, so that other DAGs can follow them."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

STAGED_EXPORT = Asset("delta_hadoop_export_staged", group="delta")
PUBLISHED_EXPORT = Asset("delta_hadoop_export", group="delta")
UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""


def snapshots_of(store: str) -> Asset:
    """The table of a store's snapshots."""
    return Asset(f"delta_{store}", group="delta")
