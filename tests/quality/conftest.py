"""A Spark session that the tests of the gate share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quality.settings import QualitySettings
from spark_apps.runtime.session import start_session, stop_session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = QualitySettings(run_dir=tmp_path_factory.mktemp("spark"))  # type: ignore[call-arg]
    session = start_session("quality-tests", settings)
    yield session
    stop_session(session)


@pytest.fixture
def settings(tmp_path: Path) -> QualitySettings:
    return QualitySettings(run_dir=tmp_path)  # type: ignore[call-arg]
