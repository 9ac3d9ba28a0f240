"""The reference project in a folder elsewhere, with the wheels installed instead of the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.distributions import ROOT
from harness.project_apps import SYSTEM_APPS, TILL_APPS
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import find_orphans, stop_everything
from tests.installing.conftest import Install
from tests.installing.test_extras import call, environment
from tests.integration.platform_process import PlatformProcess

FOLDERS = ("spark_apps", "state", "quality", "dags")
PURCHASES, POISON = 800, 16


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "shop"
    for name in (*FOLDERS, "demo"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "storekeeper.toml", copy)
    return copy


def test_its_apps_are_found_with_the_bare_package(install: Install, project: Path) -> None:
    variables = environment(install("none"), project)
    tell = "from storekeeper.apps.registry import APPS; import spark_apps; print(spark_apps.__file__, *APPS)"
    done = call(f'python -c "{tell}"', project, variables)
    assert done.stdout.split() == [str(project / "spark_apps" / "__init__.py"), *TILL_APPS, *SYSTEM_APPS], done.stderr
    (project / "elsewhere").mkdir()
    shown = call("storekeeper topology sales_windows", project / "elsewhere", variables)
    assert "store sales-hopping" in shown.stdout, shown.stderr


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.timeout(1800)
@pytest.mark.long("test_project.py finds its apps, and test_running_platform.py has the demo's data on a platform")
def test_the_platform_runs_it_and_nothing_differs(install: Install, project: Path) -> None:
    ports = PlatformProcess.in_folder(project / "run").environment
    named = {name: value for name, value in ports.items() if name.startswith("STOREKEEPER_") and "PORT" in name}
    jars = {"STOREKEEPER_JARS_DIR": str(ROOT / ".jars"), "STOREKEEPER_START_TIMEOUT_S": "900"}
    installed = install("airflow,platform")
    variables = {**environment(installed, project), **named, **jars}
    count = ("--purchases", str(PURCHASES), "--poison", str(POISON))
    try:
        done = subprocess.run(
            [installed.python, "-m", "demo", "--run-dir", str(project / "run"), *count],
            cwd=project, env=variables, capture_output=True, text=True, check=False, timeout=1700,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report = json.loads((project / "demo-report.json").read_text())
        assert (report["verdict"], report["quality"]) == ("green", "published")
        assert (report["counts"]["invoices"], report["counts"]["dead letters"]) == (PURCHASES, POISON)
        assert report["counts"]["rows of the other stores"] > 500
        assert find_orphans(project / "run") == []
    finally:
        stop_everything(RunLayout(project / "run"))
