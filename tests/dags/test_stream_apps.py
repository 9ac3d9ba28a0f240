from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.programs import ChooseProgramsOperator
from dags.operators.supervisor_rpc import SupervisorRpc
from spark_apps.registry import POS_APPS
from spark_apps.runtime.heartbeat import AppState, read_heartbeat
from spark_apps.runtime.scale import AppScale, read_scale
from tests.dags.conftest import DagRun, RunDag
from tests.dags.supervised import Supervised
from tests.dags.test_migrate_state import TOYS

pytestmark = pytest.mark.airflow


def taken(run: DagRun) -> dict[str, str]:
    """The states of the tasks of apps that the run was for."""
    return {task: state for task, state in run.tasks.items() if task != "choose" and state != "skipped"}


def pids(supervised: Supervised) -> dict[str, int]:
    return {app: supervised.rpc.process(app).pid for app in POS_APPS}


def test_by_default_all_apps_are_brought_up_and_running_ones_are_left_alone(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run = run_dag("stream_apps")
    assert taken(run) == dict.fromkeys((*POS_APPS, "shared_driver"), "success"), run.log
    before = pids(supervised)
    assert all(before.values())
    assert run.results["pos"] == {
        "app": "pos",
        "action": "ensure",
        "changed": True,
        "pid": before["pos"],
        "state": "RUNNING",
    }
    again = run_dag("stream_apps")
    assert {app: again.results[app]["changed"] for app in taken(again)} == dict.fromkeys(taken(run), False)
    assert pids(supervised) == before


def test_one_app_is_restarted_and_stopped_and_the_others_are_not_touched(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    run = run_dag("stream_apps", {"app": "pos", "action": "restart"})
    assert taken(run) == {"pos": "success"}, run.log
    after = pids(supervised)
    assert after["pos"] not in {0, before["pos"]}
    assert after == {**before, "pos": after["pos"]}
    run = run_dag("stream_apps", {"app": "pos", "action": "stop"})
    assert run.results["pos"]["state"] == "STOPPED"
    beat = read_heartbeat(supervised.run_dir / "heartbeats" / "pos.json")
    assert beat is not None
    assert beat.state is AppState.STOPPED
    assert supervised.rpc.process("pos").state == "STOPPED"


def test_an_app_that_cannot_run_fails_its_task_with_its_own_words(run_dag: RunDag, supervised: Supervised) -> None:
    supervised.behave("pos", "misconfigured")
    run = run_dag("stream_apps", {"action": "start"})
    assert taken(run) == {
        "pos": "failed",
        "hadoop_export": "success",
        "shared_driver": "success",
    }
    assert "pos ended with exit code 78 instead of running" in run.log
    assert "topic pos is missing: create it" in run.log
    assert "toy pos is in the mood to misconfigured" in run.log


@pytest.mark.long("test_app_changes.py")
def test_one_app_is_scaled_for_good_and_gets_its_size_back_if_it_cannot_live_with_the_new_one(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    run = run_dag("stream_apps", {"app": "pos", "action": "scale", "cores": 4, "memory_mb": 2048})
    assert taken(run) == {"pos": "success"}, run.log
    after = pids(supervised)
    assert after == {**before, "pos": after["pos"]} != before
    file = supervised.run_dir / "scale" / "pos.json"
    assert read_scale(file) == AppScale(cores=4, memory_mb=2048)

    file.unlink()
    supervised.behave("pos", "small")
    run = run_dag("stream_apps", {"app": "pos", "action": "scale", "cores": 8})
    assert run.tasks["pos"] == "failed"
    assert "scale failed: pos ended with exit code 78" in run.log
    assert "It runs again as before." in run.log
    assert not file.exists()
    assert pids(supervised)["pos"] not in {0, after["pos"]}


@pytest.mark.long("test_app_changes.py")
def test_the_smaller_apps_are_acted_on_all_at_once(run_dag: RunDag, supervised: Supervised) -> None:
    run = run_dag("stream_apps", {"app": "shared_driver", "action": "scale", "memory_mb": 2048})
    assert taken(run) == {"shared_driver": "success"}, run.log
    assert read_scale(supervised.run_dir / "scale" / "shared_driver.json") == AppScale(memory_mb=2048)
    supervised.await_state("shared_driver", "RUNNING")
    run = run_dag("stream_apps", {"app": "all", "action": "scale", "cores": 2})
    assert "`scale` is for one app" in run.log


def test_an_app_that_the_platform_does_not_have_says_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(SupervisorRpc, "from_secret", lambda *_, **__: SimpleNamespace(names=lambda: ["pos"]))
    choose = ChooseProgramsOperator(task_id="choose", selected="shared_driver", action="start")
    with pytest.raises(AirflowFailException, match="up --apps all"):
        choose.choose_branch({})


@pytest.mark.long("test_running_code.py asks the code, test_stream_apps.py restarts an app")
def test_an_upgrade_asks_the_code_first_and_sees_the_app_read_on(run_dag: RunDag, supervised: Supervised) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    (supervised.run_dir / "toy.json").write_text('{"refuse": "hadoop_export"}')
    supervised.behave("pos", "rewind")
    run = run_dag("stream_apps", {"action": "upgrade"}, **TOYS)
    upgraded = {"pos": "failed", "hadoop_export": "failed", "shared_driver": "success"}
    assert taken(run) == upgraded, run.log
    after = pids(supervised)
    assert "pos was drained at offset 10 of pos partition 0, but goes on at 0" in run.log
    assert after["pos"] not in {0, before["pos"]}, "it is restarted all the same"
    assert "hadoop_export runs on as it was" in run.log
    assert "a module is missing" in run.log
    assert after["hadoop_export"] == before["hadoop_export"]


def test_without_a_platform_the_message_says_how_to_start_one(run_dag: RunDag) -> None:
    run = run_dag("stream_apps", {"app": "pos"})
    assert run.state == "failed"
    assert run.tasks["pos"] == "upstream_failed"
    assert "start the platform with `storekeeper up`" in run.log
