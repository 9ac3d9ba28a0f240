"""Executors run code that is not on their hosts: files of a driver, and a whole environment as an archive."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.ports import free_ports
from tests.engine.runtime import shipping
from tests.standalone_spark import end, spark_daemon

pytestmark = [pytest.mark.spark, pytest.mark.long("test_spark_properties.py has the properties that ship packages")]
_QUIET = {"executor.memory": "512m", "cores.max": 1}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster with one worker."""
    folder, (port,) = tmp_path_factory.mktemp("cluster"), free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as started:
        address = ("--host", "127.0.0.1", "--port", str(port))
        started.callback(end, spark_daemon(folder / "master.log", "master.Master", *address))
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        started.callback(end, spark_daemon(folder / "worker.log", "worker.Worker", url, *room))
        yield url


def found_by_executors(master: str, run_dir: Path, properties: Mapping[str, object], *modules: str) -> dict[str, str]:
    """What a session with these properties finds."""
    settings = {
        "STOREKEEPER_CONFIG": "",
        "STOREKEEPER_RUN_DIR": str(run_dir),
        "STOREKEEPER_SPARK_MASTER": master,
        "STOREKEEPER_SPARK": json.dumps({**_QUIET, **properties}),
    }
    variables = [f"{name}={value}" for name, value in settings.items()]
    command = ["env", *variables, sys.executable, "-m", shipping.__name__, *modules]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, str] = json.loads(answer)
    return found


def test_files_of_the_driver_are_imported_by_executors(master: str, tmp_path: Path) -> None:
    package, module = tmp_path / "shipped_package.zip", tmp_path / "shipped_module.py"
    with zipfile.ZipFile(package, "w") as written:
        written.writestr("shipped_package/__init__.py", "ORIGIN = 'zip'\n")
    module.write_text("ORIGIN = 'file'\n")
    files = {"submit.pyFiles": [str(package), str(module)]}
    assert found_by_executors(master, tmp_path / "run", files, "shipped_package", "shipped_module", "unshipped") == {
        "shipped_package": "zip",
        "shipped_module": "file",
        "unshipped": "ModuleNotFoundError",
    }


def test_executors_run_in_an_environment_that_comes_as_an_archive(master: str, tmp_path: Path) -> None:
    environment, archive = tmp_path / "environment", tmp_path / "environment.tar.gz"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib"))
    (packages / "archived_module.py").write_text("ORIGIN = 'archive'\n")
    with tarfile.open(archive, "w:gz") as written:
        written.add(environment, ".")
    shipped = {"archives": f"{archive}#environment", "pyspark.python": "./environment/bin/python"}
    assert found_by_executors(master, tmp_path / "run", shipped, "archived_module") == {"archived_module": "archive"}
