"""Lineage as Airflow's provider for OpenLineage takes it, with the real package in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
_INSTALL_S = 600
_IMPORTED = """
import sys
import storekeeper_provider.operators
assert not [name for name in sys.modules if "openlineage" in name and "compat" not in name]
"""
_EMIT = """
import json, sys
from types import SimpleNamespace
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.utils.state import TaskInstanceState
from datetime import datetime, timezone
from openlineage.client.uuid import generate_new_uuid
from storekeeper_provider.operators import StorekeeperJobOperator

task = StorekeeperJobOperator(task_id="snapshot", arguments=["snapshot", "create", "rewards"])
task._over = json.loads(sys.argv[1])
run = SimpleNamespace(dag_id="nightly", run_id="r1", task_id="snapshot", try_number=1, map_index=-1)
found = ExtractorManager().extract_metadata(
    dagrun=run, task=task, task_instance_state=TaskInstanceState.SUCCESS, task_instance=run
)
OpenLineageAdapter().complete_task(
    run_id=str(generate_new_uuid()), job_name="nightly.snapshot", end_time=datetime.now(timezone.utc).isoformat(),
    task=found, run_facets={}, nominal_start_time=None, nominal_end_time=None, owners=None, tags=None,
    job_description=None, job_description_type=None,
)
"""


@pytest.mark.airflow
def test_nothing_of_openlineage_is_imported_before_it_asks() -> None:
    subprocess.run([sys.executable, "-c", _IMPORTED], cwd=PROJECT, check=True, timeout=_INSTALL_S)


@pytest.mark.airflow
@pytest.mark.long("test_lineage.py has the names of datasets, in tests/deploy/control")
def test_the_event_of_a_task_has_what_its_job_read_and_wrote(tmp_path: Path) -> None:
    environment, events = tmp_path / "venv", tmp_path / "events.json"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=_INSTALL_S)
    (packages,) = environment.glob("lib/python*/site-packages")
    (here,) = {path for path in sys.path if path.endswith("site-packages")}
    (packages / "ours.pth").write_text(here)
    install = [str(environment / "bin" / "pip"), "install", "-q", "apache-airflow-providers-openlineage"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode:
        pytest.skip(f"pip can't install Airflow's provider for OpenLineage: {done.stderr[-300:]}")
    job = {"inputs": [["kafka://broker:9092", "pos-rewards-changelog"]], "outputs": [["s3://bucket", "tables/rewards"]]}
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    subprocess.run(
        [str(environment / "bin" / "python"), "-c", _EMIT, json.dumps(job)],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(PROJECT),
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        },
        check=True,
        timeout=_INSTALL_S,
    )
    (event,) = map(json.loads, events.read_text().splitlines())
    named = {side: [(one["namespace"], one["name"]) for one in event[side]] for side in ("inputs", "outputs")}
    assert named == {side: [tuple(pair) for pair in pairs] for side, pairs in job.items()}
