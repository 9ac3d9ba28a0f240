from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from storekeeper.quality.settings import QualitySettings
from tests.dags.conftest import RunDag
from tests.local_tables import local_table
from tests.ops.control.toys import ControlProcess
from tests.staged_lines import line, stage

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

ALONE = {"STOREKEEPER_QUALITY_RECONCILE": "false"}  # there are no topics here


@pytest.mark.long("test_table_gate.py publishes and holds back, test_running_platform.py publishes by this DAG")
def test_a_good_export_is_published_and_a_leaking_one_fails_the_run_until_a_good_one_follows(
    run_dag: RunDag, control: ControlProcess, tmp_path: Path
) -> None:
    control.variables.update(ALONE)
    settings = QualitySettings(run_dir=tmp_path / "run")  # type: ignore[call-arg]
    stage(settings, line(0))
    run = run_dag("check_tables")
    assert run.state == "success", run.log
    verdict = run.results["check"]
    assert (verdict["status"], verdict["rows"], verdict["new"]) == ("published", 1, True)

    stage(settings, line(1, ItemDescription="call 9889127612"))
    leaking = run_dag("check_tables")
    again = run_dag("check_tables")
    for run in (leaking, again):
        assert run.state == "failed"
        assert "quarantined, not published" in run.log
        assert "ItemDescription doesn't hold a card or phone number. Failing rows: 1." in run.log
        assert "9889127612" not in run.log
    assert DeltaTable(local_table(settings, "hadoop_export")).count() == 1


def test_nothing_staged_is_no_failure(run_dag: RunDag, control: ControlProcess) -> None:
    control.variables.update(ALONE)
    run = run_dag("check_tables")
    assert run.state == "success", run.log
    assert run.results["check"]["status"] == "nothing_to_check"
