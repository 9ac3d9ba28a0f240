"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from harness import project
from harness.broker import JARS, Broker, start_broker
from harness.node_process import NodeProcess
from harness.schema_registry import RegistryProcess, program, start_registry
from harness.secured_broker import SecuredBroker, start_secured_broker
from harness.storage.s3 import S3
from storekeeper.locations import Location, RemoteFolder

# No file of the user's, and the apps of this project; ahead of imports that read settings.
os.environ |= {"STOREKEEPER_CONFIG": "", **project.environment()}  # noqa: TID251 (written, not read)

pytest_plugins = ["storekeeper.testkit.fixtures"]

# No example has a deadline: on a busy machine each takes as long as it takes.
settings.register_profile("without-deadlines", settings(), deadline=None)
settings.load_profile("without-deadlines")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of `make test-long` and of the pictures in the documents."""
    parser.addoption("--long", action="store_true", help="also the tests marked `long`; full numbers in the others")
    parser.addoption("--pictures", metavar="FOLDER", help="keep the screenshots there, such as docs/images")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests that are marked `long`, unless they were asked for."""
    marker = item.get_closest_marker("long")
    if marker is not None and not item.config.getoption("--long"):
        pytest.skip(f"in `make test-long` only; here instead: {marker.args[0]}")


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots go."""
    kept = request.config.getoption("--pictures")
    return Path(kept) if kept else tmp_path


@pytest.fixture(scope="session", autouse=True)
def _no_platform_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds the platform that the user started last, or makes another one that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("user-state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _nodes_start_quickly() -> Iterator[None]:
    """Nodes are forks of a process that has imported what they need."""
    with pytest.MonkeyPatch.context() as patch, NodeProcess.starters.ended():
        patch.setattr(NodeProcess, "all_prepared", True)
        yield


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """One S3 server for the whole session. A test that lets it go away must start it again."""
    if not S3.is_fetched():
        pytest.skip("the S3 server is not there: run `make setup-storage`")
    store = S3(bucket="durable")
    store.start()
    yield store
    store.close()


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """The URL of a Redis server."""
    from tests.conformance.backend import all_backends

    with all_backends() as backends:
        if backends.redis_url is None:
            pytest.skip("redis is not installed")
        yield backends.redis_url


@pytest.fixture
def s3_place(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFolder:
    """A folder of the test's own in an S3 store."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return RemoteFolder(f"{s3.uri}/{tmp_path.name}")


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A folder of the test's own: a local one, and one in an S3 store."""
    found: Location = tmp_path if request.param == "local" else request.getfixturevalue("s3_place")
    return found


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real broker for the whole session. A test that stops it must start it again.

    Tests share its topics: each takes names of its own.
    """
    if not any(JARS.glob("kafka_*.jar")):
        pytest.fail("the broker's jars are missing: run `make setup`")
    running = start_broker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def kafka_bootstrap(broker: Broker) -> str:
    """The session's broker, for the test kit's fixtures."""
    return broker.bootstrap


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One real schema registry for the whole session. A test that stops it must start it again: it is empty then.

    Tests share its subjects: each takes names of its own.
    """
    if program() is None:
        pytest.fail("the schema registry is missing: run `make .jars/schema-registry/.ready`")
    running = start_registry(tmp_path_factory.mktemp("schema-registry"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker with TLS, logins and ACLs for the whole session. Tests share its topics and its users."""
    running = start_secured_broker(tmp_path_factory.mktemp("secured") / "broker")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def airflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's database, without rows of anybody: to be copied."""
    home = tmp_path_factory.mktemp("airflow-database")
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env={**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},  # noqa: TID251
        check=True,
        timeout=300,
        capture_output=True,
    )
    return home / "airflow.db"


@pytest.fixture(autouse=True)
def log_stays() -> Iterator[None]:
    """Fails a test that leaves the log of this process with a closed file, to which later tests would write."""
    yield
    file = getattr(structlog.get_config()["logger_factory"], "_file", None)
    assert file is None or not file.closed, "use the fixture `called_here`"


@pytest.fixture
def called_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the priority and the log of this process when a test calls a command that has a process of its own."""
    monkeypatch.setattr("storekeeper.apps.priority.lower_priority", lambda _: None)
    monkeypatch.setattr("storekeeper.apps.priority.configure_logging", lambda *_: None)
    monkeypatch.setattr("storekeeper.cli.entry.configure_logging", lambda *_: None)
