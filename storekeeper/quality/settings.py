"""The settings of the quality gate. Free of Spark and of Great Expectations."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from storekeeper.apps.settings import AppSettings
from storekeeper.configuration import LIVE


class QualitySettings(AppSettings):
    """The settings of the gate, on top of those of every Spark job. Each field is `STOREKEEPER_<NAME>`."""

    change = LIVE

    quality_reconcile: bool = Field(
        True, description="Whether batches are compared with the topics and tables that their declarations name."
    )

    def verdict_dir(self, table: str) -> Path:
        """Where the gate's verdicts on a table are kept, one JSON file each."""
        return self.run_dir / "quality" / "verdicts" / table

    def resolution_dir(self, table: str) -> Path:
        """Where the decisions on quarantined batches are kept, one JSON file each."""
        return self.run_dir / "quality" / "resolutions" / table

    def data_docs_dir(self, table: str) -> Path:
        """Where the Data Docs of the newest verdict on a table are: open `index.html`."""
        return self.run_dir / "quality" / "data_docs" / table
