"""What the tests of the gate share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from storekeeper.quality.settings import QualitySettings


@pytest.fixture(scope="session")
def spark(spark_session: SparkSession) -> SparkSession:
    return spark_session


@pytest.fixture
def settings(tmp_path: Path) -> QualitySettings:
    """Without reconciliation, which the tests of that turn on."""
    return QualitySettings(run_dir=tmp_path, quality_reconcile=False)
