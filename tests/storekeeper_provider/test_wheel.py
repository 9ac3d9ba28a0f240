"""The provider's wheel, alone with Airflow in an environment that knows nothing of the product."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.distributions import build

_BUILD_S = 300
_LOADED = """
import importlib, pkgutil, sys
import storekeeper_provider
for module in pkgutil.walk_packages(storekeeper_provider.__path__, "storekeeper_provider."):
    importlib.import_module(module.name)
from airflow.providers_manager import ProvidersManager
found = ProvidersManager().hooks["storekeeper"]
assert found.hook_class_name == "storekeeper_provider.hook.StorekeeperHook", found
product = {"storekeeper", "pyspark", "confluent_kafka"} & sys.modules.keys()
assert not product, product
print("loaded", storekeeper_provider.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("airflow-provider-storekeeper", tmp_path_factory.mktemp("wheel")).wheel


def test_it_needs_airflow_alone_and_says_what_it_is_to_airflow(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "provider_info = storekeeper_provider:get_provider_info" in content.read(points).decode()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        needed = [line for line in content.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")]
    assert [line.split()[1].partition(">")[0].partition("<")[0] for line in needed] == [
        "apache-airflow",
        "fastapi",
        "httpx",
        "sqlalchemy",
    ]


@pytest.mark.airflow
@pytest.mark.long("test_it_needs_airflow_alone_and_says_what_it_is_to_airflow")
def test_airflow_loads_it_without_the_product(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=_BUILD_S)
    (packages,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Airflow and what it needs: links to all installed packages but the product's own.
    (here,) = {Path(path) for path in sys.path if path.endswith("site-packages")}
    for path in here.iterdir():
        if "storekeeper" not in path.name and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", _LOADED],
        env={"AIRFLOW_HOME": str(tmp_path / "airflow"), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert str(packages) in done.stdout
