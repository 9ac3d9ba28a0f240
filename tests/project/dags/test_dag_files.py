"""The project's DAG files, and those of a new project, in Airflow."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from harness.project import ROOT
from storekeeper.ops.airflow_home import airflow_options
from storekeeper.ops.control.jobs import check_allowed
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.settings import PlatformSettings
from tests.ops.control.supervised import environment

_PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
def summary(bag):
    found = bag.dags.values()
    dags = {dag.dag_id: [task.arguments for task in dag.tasks if hasattr(task, "arguments")] for dag in found}
    return {"errors": bag.import_errors, "dags": dags}
print("\\n" + json.dumps([summary(DagBag(folder)) for folder in sys.argv[1:]]))
"""


def test_they_import_airflow_and_the_provider_alone() -> None:
    for path in (ROOT / "dags").glob("*.py"):
        tree = ast.parse(path.read_text())
        named = {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert named <= {"__future__", "datetime", "airflow", "storekeeper_provider"}, path.name


def test_airflow_gets_the_folder_of_a_project_that_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folders(project: Path) -> dict[str, str | None]:
        monkeypatch.setenv("STOREKEEPER_PROJECT_DIR", str(project))
        options = airflow_options(RunLayout(tmp_path), PlatformSettings.load(run_dir=tmp_path))
        listed = json.loads(options["dag_processor"]["dag_bundle_config_list"])
        return {one["name"]: one["kwargs"].get("path") for one in listed}

    assert folders(ROOT) == {"dags-folder": None, "project": str(ROOT / "dags")}
    assert folders(tmp_path) == {"dags-folder": None}


@pytest.mark.airflow
def test_airflow_reads_them_and_their_jobs_are_allowed(tmp_path: Path) -> None:
    home = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    make_project("page_views", tmp_path / "new")
    folders = {"close_of_day": ROOT / "dags", "daily_proof": tmp_path / "new" / "dags"}
    done = subprocess.run(
        [sys.executable, "-c", _PARSE, *map(os.fspath, folders.values())],
        env=environment(tmp_path, **home), check=True, timeout=300, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(each["errors"], list(each["dags"])) for each in found] == [({}, [dag]) for dag in folders]
    for each in found:
        for arguments in chain(*each["dags"].values()):
            check_allowed(arguments)
