from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from harness.project_apps import TILL_APPS
from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat
from storekeeper.engine.runtime.scale import AppScale, read_scale
from storekeeper.ops.dag_export import export_dags
from storekeeper_provider.dag_parts.choose import ChooseProgramsOperator
from storekeeper_provider.dag_parts.names import FILE
from storekeeper_provider.hook import StorekeeperHook
from tests.dags.conftest import DagRun, RunDag
from tests.ops.control.supervised import Supervised

pytestmark = pytest.mark.airflow


def taken(run: DagRun) -> dict[str, str]:
    """The states of the tasks of apps that the run was for."""
    return {task: state for task, state in run.tasks.items() if task != "choose" and state != "skipped"}


def pids(supervised: Supervised) -> dict[str, int]:
    return {app: supervised.rpc.process(app).pid for app in TILL_APPS}


def test_by_default_all_apps_are_brought_up_and_running_ones_are_left_alone(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run = run_dag("stream_apps")
    assert taken(run) == dict.fromkeys((*TILL_APPS, "shared_driver"), "success"), run.log
    before = pids(supervised)
    assert all(before.values())
    assert run.results["pos"] == {
        "app": "pos",
        "action": "start",
        "changed": True,
        "pid": before["pos"],
        "state": "RUNNING",
    }
    again = run_dag("stream_apps")
    assert {app: again.results[app]["changed"] for app in taken(again)} == dict.fromkeys(taken(run), False)
    assert pids(supervised) == before


@pytest.mark.long("test_app_control.py")
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


@pytest.mark.long("test_app_control.py has the words")
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


@pytest.mark.long("test_app_actions.py")
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


@pytest.mark.long("test_app_actions.py")
def test_the_smaller_apps_are_acted_on_all_at_once(run_dag: RunDag, supervised: Supervised) -> None:
    run = run_dag("stream_apps", {"app": "shared_driver", "action": "scale", "memory_mb": 2048})
    assert taken(run) == {"shared_driver": "success"}, run.log
    assert read_scale(supervised.run_dir / "scale" / "shared_driver.json") == AppScale(memory_mb=2048)
    supervised.await_state("shared_driver", "RUNNING")


def test_an_app_that_the_platform_does_not_have_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorekeeperHook, "programs", lambda _: {"pos": ["pos"]})
    choose = ChooseProgramsOperator(task_id="choose", selected="shared_driver", action="start")
    with pytest.raises(AirflowFailException, match=r"name it in storekeeper\.toml, in apps or shared_apps"):
        choose.choose_branch({})
    everything = ChooseProgramsOperator(task_id="choose", selected="all", action="scale")
    with pytest.raises(AirflowFailException, match="`scale` is for one app"):
        everything.choose_branch({})


@pytest.mark.long("test_hook.py has the message")
def test_without_a_platform_the_message_says_what_is_missing(run_dag: RunDag) -> None:
    nowhere = json.dumps({"conn_type": "storekeeper", "host": "http://127.0.0.1:9", "password": "skt_x"})
    run = run_dag("stream_apps", {"app": "pos"}, AIRFLOW_CONN_STOREKEEPER_DEFAULT=nowhere)
    assert run.state == "failed"
    assert run.tasks["pos"] == "upstream_failed"
    assert "the control API at http://127.0.0.1:9 doesn't answer" in run.log
    assert "skt_x" not in run.log


def test_an_app_with_a_dot_in_its_name_has_a_task_of_that_name(tmp_path: Path) -> None:
    export_dags(tmp_path, 60)
    names = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**names, "programs": {"till-team.points": "Points"}}))
    dag = runpy.run_path(str(tmp_path / "stream_apps.py"))["choose"].dag
    assert dag.task_ids == ["choose", "till-team.points"]
    assert dag.params.get_param("app").schema["enum"] == ["all", "till-team.points"]
