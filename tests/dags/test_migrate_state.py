"""The DAGs of migrations, task by task, on a toy instead of the app's generations. `dag.test()`, a real supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storekeeper.program import ExitCode
from tests.dags.conftest import RunDag
from tests.ops.control.supervised import Supervised
from tests.ops.control.toys import ControlProcess

pytestmark = pytest.mark.airflow

PROJECT = Path(__file__).parents[2]
# Safe path: else the working directory, and with it the real package, would come before the toys.
TOYS = {"PYTHONPATH": f"{PROJECT}/tests/dags/toy_path:{PROJECT}", "PYTHONSAFEPATH": "1"}
CONF = {"app": "pos", "approval": False, "watch_minutes": 0, "max_behind": 5}


@pytest.fixture(autouse=True)
def _toys(control: ControlProcess) -> None:
    """Jobs are steps of the toy."""
    control.commands = f"{PROJECT}/tests/dags/toy_path"


def _toy(run_dir: Path, **state: Any) -> dict[str, Any]:
    path = run_dir / "toy.json"
    if state:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(state))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_toy_tells_nothing_that_the_steps_do_not(tmp_path: Path) -> None:
    def told(**environment: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "storekeeper.cli.entry", "generation", "status", "pos", "--output", "json"],
            env={**os.environ, "STOREKEEPER_RUN_DIR": str(tmp_path), **environment},  # noqa: TID251 (a child's own)
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    real, toy = told(), told(**TOYS)
    assert toy.keys() <= real.keys()
    assert toy["generations"][0].keys() <= real["generations"][0].keys()
    assert (real["stores"], real["processes"].keys()) == (toy["stores"], toy["processes"].keys())


def test_a_migration_goes_all_the_way_and_retires_the_old_generation(run_dag: RunDag, supervised: Supervised) -> None:
    changes = ["rewards-tier", "rewards-by-region"]
    conf = {**CONF, "migrations": changes, "partitions": 12, "afterwards": "retire", "delete": True}
    run = run_dag("migrate_state", conf)
    assert run.state == "success", run.log
    named = ["--migration", "rewards-tier", "--migration", "rewards-by-region", "--partitions", "12"]
    assert run.results["plan"] == {"text": "a plan", "asked": ["pos", *named]}
    toy = _toy(supervised.run_dir)
    assert toy["calls"] == [
        f"generation seed pos {' '.join(named)}",
        "generation handover pos --max-behind 100000",
        "snapshot create rewards",
        "generation retire pos --generation 1 --delete",
    ]
    assert (toy["live"], toy["standby"], toy["behind"] <= 5) == (2, None, True)
    assert run.results["start"]["app"] == "pos-next"
    supervised.await_state("pos-next", "RUNNING")
    assert (run.tasks["keep"], run.tasks["roll_back"]) == ("skipped", "skipped")


@pytest.mark.long("test_migrate_state.py")
def test_a_backfill_begins_where_it_is_told_and_may_hold_something_else(
    run_dag: RunDag, supervised: Supervised
) -> None:
    conf = {**CONF, "since": "2026-01-31T00:00:00Z", "accept_differences": True, "afterwards": "keep"}
    run = run_dag("migrate_state", conf)
    assert run.state == "success", run.log
    assert run.results["plan"]["asked"] == ["pos", "--copy"]
    calls = _toy(supervised.run_dir)["calls"]
    assert "generation seed pos --from 2026-01-31T00:00:00Z" in calls
    assert "generation handover pos --max-behind 100000 --accept-differences" in calls


@pytest.mark.long("test_handover.py has the refusals, test_operators.py the exit codes")
def test_what_the_hand_over_refuses_ends_the_run_and_nothing_behind_it_is_done(
    run_dag: RunDag, supervised: Supervised
) -> None:
    _toy(supervised.run_dir, refuse="handover")
    run = run_dag("migrate_state", {**CONF, "afterwards": "retire"})
    assert run.state == "failed"
    assert ExitCode.REFUSED.meaning in run.log
    assert run.tasks["retire"] == "upstream_failed"
    assert _toy(supervised.run_dir)["live"] == 1


@pytest.mark.long("test_migrate_state.py")
def test_a_run_in_place_of_a_lost_one_goes_on_where_that_was_and_may_go_back(
    run_dag: RunDag, supervised: Supervised
) -> None:
    _toy(supervised.run_dir, candidate=2, calls=["generation seed ticks"])
    run = run_dag("migrate_state", {**CONF, "app": "ticks", "copy": True, "afterwards": "roll back"})
    assert run.state == "success", run.log
    assert run.results["plan"]["asked"] == ["ticks", "--copy"]
    assert _toy(supervised.run_dir)["calls"][1] == "generation seed ticks"
    supervised.await_state("ticks-next", "RUNNING")
    calls = _toy(supervised.run_dir)["calls"]
    assert calls[-2:] == ["generation rollback ticks", "snapshot create prices more-prices"]
    assert calls.count("snapshot create prices more-prices") == 2
    assert run.results["hand_over"]["live"] == 2
    assert (_toy(supervised.run_dir)["live"], _toy(supervised.run_dir)["standby"]) == (1, 2)
    assert (run.tasks["retire"], run.tasks["roll_back"]) == ("skipped", "success")


def test_a_migration_is_rolled_back_and_what_was_given_up_discarded(run_dag: RunDag, tmp_path: Path) -> None:
    _toy(tmp_path / "run", live=2, standby=1)
    run = run_dag("rollback_state", {"app": "pos"})
    assert run.state == "success", run.log
    assert _toy(tmp_path / "run")["live"] == 1
    assert _toy(tmp_path / "run")["calls"] == ["generation rollback pos", "snapshot create rewards"]
    assert run.tasks["discard"] == "skipped"
    _toy(tmp_path / "run", live=2, standby=1)
    run_dag("rollback_state", {"app": "pos", "discard": True})
    assert _toy(tmp_path / "run")["calls"] == [
        "generation rollback pos",
        "snapshot create rewards",
        "generation retire pos --generation 2 --delete",
    ]
