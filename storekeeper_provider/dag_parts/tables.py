"""The Delta tables as Airflow assets, so that other DAGs can follow them."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from storekeeper_provider.assets import delta_table

UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""
UPDATED_TABLES = AssetAlias("delta_published", group="delta")
"""Stands for the tables that a run of DAG `check_tables` or `release_quarantined` updates."""


def table_asset(name: str) -> Asset:
    """A Delta table, such as that of a store's snapshots, which has the store's name."""
    return delta_table(name)
