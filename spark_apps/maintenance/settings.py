"""The settings of maintenance jobs: those of apps, and where the nodes are."""

from __future__ import annotations

from pydantic import Field

from spark_apps.client_settings import ClientSettings


class MaintenanceSettings(ClientSettings):
    """Settings of maintenance jobs. Each field is `STOREKEEPER_<NAME>`."""

    growth_rows_per_day: float = Field(
        default=1_000_000,
        gt=0,
        description="A store that grows by more rows a day than this is reported.",
        json_schema_extra={"unit": "rows a day"},
    )
    growth_bytes_per_day: float = Field(
        default=1 << 30,
        gt=0,
        description="A store that grows by more bytes a day than this is reported.",
        json_schema_extra={"unit": "bytes a day"},
    )
    table_history_days: float = Field(
        default=7, ge=1, description="Every version of a Delta table stays readable for this time."
    )
