"""The wheel of the client alone: what it holds, what it needs, and its README against nodes."""

from __future__ import annotations

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from harness.distributions import ROOT
from tests.client.served_cluster import served_cluster
from tests.installing.environment import Environment, Wheels, make_environment, metadata, required

CARD = "4836051607"


@pytest.fixture(scope="module")
def wheel(wheels: Wheels) -> Path:
    return wheels["storekeeper-client"]


@pytest.fixture(scope="module")
def alone(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("alone"), "storekeeper-client", wheels)


def python(installed: Environment, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code where only the environment can be imported."""
    command = [str(installed.python), "-I", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_it_holds_the_client_and_no_store_or_node(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"storekeeper/client/client.py", "storekeeper/errors.py", "storekeeper/py.typed"} <= set(names)
    rooms = {parts[1] for name in names if name.startswith("storekeeper/") and len(parts := name.split("/")) > 2}
    assert rooms == {"changelog", "client", "protocol"}


def test_its_version_and_requirements_are_those_of_the_library(wheel: Path) -> None:
    library = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    assert metadata(wheel)["Version"] == library["version"]
    allowed = {*library["dependencies"], *library["optional-dependencies"]["spark"]}
    asked = {*client["dependencies"], *(each for extra in client["optional-dependencies"].values() for each in extra)}
    assert asked - allowed == set()


def test_it_needs_neither_kafka_nor_a_database(wheels: Wheels) -> None:
    names = {found.metadata["Name"] for found in required("storekeeper-client", wheels).others}
    assert names & {"confluent-kafka", "rocksdict", "pydantic", "structlog", "typer"} == set()
    assert {"httpx2", "orjson"} <= names


def test_its_readme_runs(wheels: Wheels, tmp_path: Path) -> None:
    code = (ROOT / "client" / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    installed = make_environment(tmp_path / "with-pandas", "storekeeper-client[pandas]", wheels)
    with served_cluster() as nodes:
        nodes.cluster.write("rewards", CARD.encode(), b'{"TotalLoyaltyPoints": 139.46}')
        ran = python(installed, code.replace("http://127.0.0.1:18101", nodes.addresses[0]), tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, header, row = ran.stdout.splitlines()
    assert first == "{'TotalLoyaltyPoints': Decimal('139.46')}"
    assert header.split() == ["key", "value.TotalLoyaltyPoints"]
    assert row.split() == ["0", CARD, "139.46"]


def test_both_clients_import_without_an_extra(alone: Environment, tmp_path: Path) -> None:
    ran = python(alone, "from storekeeper import AsyncStateClient, StateClient", tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_a_table_names_the_package_that_it_lacks(alone: Environment, tmp_path: Path) -> None:
    ran = python(alone, "from storekeeper import Listing, Rank\nListing(Rank).to_arrow()", tmp_path)
    assert "a table needs pyarrow: pip install pyarrow" in ran.stderr


def test_what_only_the_library_has_is_refused_with_its_name(alone: Environment, tmp_path: Path) -> None:
    ran = python(alone, "from storekeeper import StreamsBuilder", tmp_path)
    assert "only storekeeper-client is installed" in ran.stderr
