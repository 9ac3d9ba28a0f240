"""An Airflow of somebody else operates a platform that runs: by address, token and exported DAGs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.distributions import build
from harness.topics import write_topic
from storekeeper.client.client import StateClient
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.supervisor import stop_everything
from storekeeper.ops.waiting import eventually
from tests.integration.platform_process import PlatformProcess
from tests.storekeeper_provider.their_airflow import make_environment, running_airflow
from tests.watched_airflow import WatchedAirflow

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(3600)),
    pytest.mark.long("test_operators.py has the operators, and test_own_app_platform.py the platform's own Airflow"),
]

_OWN, _STORE, _RUN_S = "page_views", "page_views_totals", 900
_RUNS: tuple[tuple[str, dict[str, object]], ...] = (
    ("stream_apps", {"app": _OWN, "action": "restart"}),
    ("daily_proof", {}),
    ("snapshot_stores", {"store": _STORE}),
    ("verify_stores", {"store": _STORE}),
    ("upgrade_nodes", {}),
)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    """A platform without an Airflow, which runs one app."""
    make_project(_OWN, tmp_path)
    own = {"apps": f"spark_apps.{_OWN}:{_OWN.upper()}", "project_dir": str(tmp_path), "airflow": "none"}
    found = PlatformProcess.in_folder(tmp_path / "run", **own)
    begun = found.call("up", timeout_s=1000)
    try:
        assert begun.returncode == 0, begun.stderr
        yield found
    finally:
        stop_everything(RunLayout(found.run_dir))


def test_it_restarts_snapshots_verifies_and_upgrades(
    platform: PlatformProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert not (platform.run_dir / "airflow").exists()
    addresses = {process["name"]: process["address"] for process in platform.status()["processes"]}
    home = tmp_path / "airflow"
    exported = platform.call("export-dags", str(home / "dags" / "storekeeper"))
    assert exported.returncode == 0, exported.stderr
    shutil.copytree(tmp_path / "dags", home / "dags" / "own")
    token = platform.call("token", "add", "airflow", "--role", "operator").stdout.strip()
    wheel = build("airflow-provider-storekeeper", tmp_path / "wheel").wheel
    environment = make_environment(request.config.cache.mkdir("their-airflow"), wheel)
    write_topic(addresses["kafka"], f"{_OWN}-events", [(b"a", b'{"Amount": 5}')])
    with StateClient([addresses["node-a"], addresses["node-b"]]) as nodes:
        totals = nodes.key_value(_STORE)
        assert eventually(lambda: (totals.get("a").value or {}).get("Total") == 5, _RUN_S)
    before = _pids(platform)
    connection = {"host": addresses["control"], "password": token}
    with running_airflow(environment, home, connection) as airflow, airflow.client() as client:
        assert eventually(lambda: all(client.has_dag(dag) for dag, _ in _RUNS), _RUN_S)
        assert client.import_errors() == []
        for dag, conf in _RUNS:
            _run(client, dag, conf)
    after = _pids(platform)
    assert {name for name in before if before[name] != after[name]} == {_OWN, "node-a", "node-b"}
    rows = platform.call("sql", "--output", "json", f'SELECT "Events", "Total" FROM {_STORE}')  # noqa: S608 (our own)
    assert [json.loads(rows.stdout)] == [{"Events": 1, "Total": 5}]
    verdict = platform.status()
    assert verdict["healthy"], verdict


def _run(client: WatchedAirflow, dag: str, conf: dict[str, object]) -> None:
    """Runs a DAG; it must succeed, whatever its clock starts beside it."""
    client.unpause(dag)
    client.wait_for_run(dag, client.trigger(dag, conf), _RUN_S)


def _pids(platform: PlatformProcess) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in platform.status()["processes"]}
