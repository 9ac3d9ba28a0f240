"""The Delta tables as Airflow assets, so that other DAGs can follow them."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from spark_apps.registry import gated_tables
from storekeeper_provider.assets import delta_table
from storekeeper_provider.staged_rows import staged_table

EVERY_TABLE = tuple(gated_tables())
"""The names of all tables that the quality gate publishes."""
UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""
UPDATED_TABLES = AssetAlias("delta_published", group="delta")
"""Stands for the tables that a run of DAG `check_tables` or `release_quarantined` updates."""


def table_asset(name: str) -> Asset:
    """A Delta table, such as that of a store's snapshots, which has the store's name."""
    return delta_table(name)


def staged(table: str) -> Asset:
    """The table that an app appends to, for the quality gate to publish. It is updated when rows wait for that."""
    return staged_table(table)
