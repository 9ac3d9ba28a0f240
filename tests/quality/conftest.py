"""What the tests of the gate share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quality.settings import QualitySettings


@pytest.fixture(scope="session")
def spark(spark_session: SparkSession) -> SparkSession:
    return spark_session


@pytest.fixture
def settings(tmp_path: Path) -> QualitySettings:
    return QualitySettings(run_dir=tmp_path)  # type: ignore[call-arg]
