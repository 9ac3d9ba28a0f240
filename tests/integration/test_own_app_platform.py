"""A platform that runs an app of one's own and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.airflow_runs import AirflowRuns
from harness.topics import write_topic
from storekeeper.client.client import StateClient
from storekeeper.ops.airflow_home import AIRFLOW_USER, read_airflow_password
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.supervisor import stop_everything
from storekeeper.ops.waiting import eventually
from tests.integration.platform_process import PlatformProcess

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1200)),
    pytest.mark.long("test_named_apps.py and test_apps_of_a_platform.py have it in parts"),
]

_OWN, _STORE, _RUN_S = "page_views", "page_views_totals", 180


def test_an_app_of_ones_own_is_run_and_looked_after_as_the_platforms(tmp_path: Path) -> None:
    make_project(_OWN, tmp_path)
    own = {"apps": f"spark_apps.{_OWN}:{_OWN.upper()}", "project_dir": str(tmp_path)}
    platform = PlatformProcess.in_folder(tmp_path / "run", **own)
    try:
        begun = platform.call("up", timeout_s=1000)
        assert begun.returncode == 0, begun.stderr
        _use(platform)
    finally:
        stop_everything(RunLayout(platform.run_dir))


def _use(platform: PlatformProcess) -> None:
    status = platform.status()
    assert (status["healthy"], list(status["apps"])) == (True, [_OWN])
    addresses = {process["name"]: process["address"] for process in status["processes"]}
    login = AIRFLOW_USER, read_airflow_password(RunLayout(platform.run_dir)) or ""
    with (
        StateClient([addresses["node-a"], addresses["node-b"]]) as client,
        AirflowRuns(addresses["airflow-api-server"], *login) as airflow,
    ):
        totals = client.key_value(_STORE)

        def add(amount: int, total: int) -> bool:
            event = b'{"Amount": %d}' % amount
            write_topic(addresses["kafka"], f"{_OWN}-events", [(b"a", event)])
            return eventually(lambda: (totals.get("a").value or {}).get("Total") == total, _RUN_S)

        assert add(5, total=5)
        before = _pids(platform)
        airflow.wait_for_run("stream_apps", airflow.trigger("stream_apps", {"app": _OWN, "action": "restart"}), _RUN_S)
        assert add(7, total=12)
        after = _pids(platform)
        assert {name for name in before if before[name] != after[name]} == {_OWN}
        airflow.unpause("daily_proof")
        airflow.wait_for_run("daily_proof", airflow.trigger("daily_proof"), _RUN_S)
        airflow.wait_for_run("snapshot_stores", airflow.trigger("snapshot_stores", {"store": _STORE}), _RUN_S)
    rows = platform.call("sql", "--output", "json", f'SELECT "Events", "Total" FROM {_STORE}')  # noqa: S608 (our own)
    assert [json.loads(rows.stdout)] == [{"Events": 2, "Total": 12}]


def _pids(platform: PlatformProcess) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in platform.status()["processes"]}
