"""Fixtures for pytest.

In a `conftest.py`:

    from storekeeper.testkit.fixtures import kafka_bootstrap, spark_session, topology_driver

A test that takes `topology_driver` runs twice: in plain Python, and, marked `spark` and `broker`, on real Spark and the
broker of the fixture `kafka_bootstrap`. All tests share one Spark session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.testkit.plain_driver import plain_driver
from storekeeper.topology import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeDriver = Callable[..., TopologyTestDriver]
"""Takes an app's spec and settings that differ from the defaults, by name."""

_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For the few rows of a test, compiling a plan takes longer than interpreting it."""
_ENGINES = ["plain", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.broker])]


@pytest.fixture(scope="session")
def kafka_bootstrap() -> str:
    """The broker for tests on Spark: that of the setting. Such a test is skipped while it doesn't answer."""
    from storekeeper.engine.runtime.topics import Topics  # noqa: PLC0415 (loads the Kafka client)

    kafka = AppSettings().kafka
    try:
        Topics(kafka, timeout_s=2).missing([])
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    return kafka.bootstrap


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for all tests. It interprets plans instead of compiling them.

    A process has one session at a time: a test that starts another one must do that in a process of its own.
    """
    from storekeeper.engine.runtime.session import start_session, stop_spark  # noqa: PLC0415 (loads Spark)

    settings = AppSettings(run_dir=tmp_path_factory.mktemp("spark"))
    session = start_session("testkit", settings.with_spark({**_SMALL, **settings.spark}))
    yield session
    stop_spark(session.sparkContext)


@pytest.fixture(params=_ENGINES)
def topology_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeDriver]:
    """Makes a driver of an app, of the engine that the test runs on."""
    with ExitStack() as started:

        def make(spec: AppSpec, **changes: Any) -> TopologyTestDriver:
            if request.param == "plain":
                return plain_driver(spec, AppSettings(**changes))
            from storekeeper.testkit.spark_driver import SparkDriver  # noqa: PLC0415 (loads Spark)

            settings = AppSettings(kafka_bootstrap=request.getfixturevalue("kafka_bootstrap"), **changes)
            driver = SparkDriver(spec, settings, request.getfixturevalue("spark_session"), tmp_path / spec.name)
            started.callback(driver.close)
            return driver

        yield make
