"""The settings of maintenance jobs: those of apps, and where the nodes are."""

from __future__ import annotations

from pydantic import Field

from storekeeper.apps.client_settings import ClientSettings


class SnapshotSettings(ClientSettings):
    """Settings of maintenance jobs. Each field is `STOREKEEPER_<NAME>`."""

    table_history_days: float = Field(
        default=7, ge=1, description="Every version of a Delta table stays readable for this time."
    )
