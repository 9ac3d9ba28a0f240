from __future__ import annotations

import pytest

from spark_apps.heartbeat import AppState, read_heartbeat
from spark_apps.registry import APPS
from spark_apps.scale import AppScale, read_scale
from tests.dags.conftest import RunDag
from tests.dags.supervised import Supervised
from tests.dags.test_migrate_state import TOYS

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


def pids(supervised: Supervised) -> dict[str, int]:
    return {app: supervised.rpc.process(app).pid for app in APPS}


def test_by_default_all_apps_are_brought_up_and_running_ones_are_left_alone(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run = run_dag("stream_apps")
    assert run.tasks == dict.fromkeys(APPS, "success"), run.log
    before = pids(supervised)
    assert all(before.values())
    assert run.results["loyalty"] == {
        "app": "loyalty",
        "action": "ensure",
        "changed": True,
        "pid": before["loyalty"],
        "state": "RUNNING",
    }
    again = run_dag("stream_apps")
    assert [result["changed"] for result in again.results.values()] == [False] * 3
    assert pids(supervised) == before


def test_one_app_is_restarted_and_stopped_and_the_others_are_not_touched(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    run = run_dag("stream_apps", {"app": "loyalty", "action": "restart"})
    assert run.tasks == {"pos_fanout": "skipped", "loyalty": "success", "hadoop_export": "skipped"}, run.log
    after = pids(supervised)
    assert after["loyalty"] not in {0, before["loyalty"]}
    assert after == {**before, "loyalty": after["loyalty"]}
    run = run_dag("stream_apps", {"app": "loyalty", "action": "stop"})
    assert run.results["loyalty"]["state"] == "STOPPED"
    beat = read_heartbeat(supervised.run_dir / "heartbeats" / "loyalty.json")
    assert beat is not None
    assert beat.state is AppState.STOPPED
    assert supervised.rpc.process("loyalty").state == "STOPPED"


def test_an_app_that_cannot_run_fails_its_task_with_its_own_words(run_dag: RunDag, supervised: Supervised) -> None:
    supervised.behave("loyalty", "misconfigured")
    run = run_dag("stream_apps", {"action": "start"})
    assert run.tasks == {"pos_fanout": "success", "loyalty": "failed", "hadoop_export": "success"}
    assert "loyalty ended with exit code 78 instead of running" in run.log
    assert "topic pos is missing: create it" in run.log
    assert "toy loyalty is in the mood to misconfigured" in run.log


def test_one_app_is_scaled_for_good_and_gets_its_size_back_if_it_cannot_live_with_the_new_one(
    run_dag: RunDag, supervised: Supervised
) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    run = run_dag("stream_apps", {"app": "loyalty", "action": "scale", "cores": 4, "memory_mb": 2048})
    assert run.tasks == {"pos_fanout": "skipped", "loyalty": "success", "hadoop_export": "skipped"}, run.log
    after = pids(supervised)
    assert after == {**before, "loyalty": after["loyalty"]} != before
    file = supervised.run_dir / "scale" / "loyalty.json"
    assert read_scale(file) == AppScale(cores=4, memory_mb=2048)

    file.unlink()
    supervised.behave("loyalty", "small")
    run = run_dag("stream_apps", {"app": "loyalty", "action": "scale", "cores": 8})
    assert run.tasks["loyalty"] == "failed"
    assert "scale failed: loyalty ended with exit code 78" in run.log
    assert "It runs again as before." in run.log
    assert not file.exists()
    assert pids(supervised)["loyalty"] not in {0, after["loyalty"]}


def test_an_upgrade_asks_the_code_first_and_sees_the_app_read_on(run_dag: RunDag, supervised: Supervised) -> None:
    run_dag("stream_apps")
    before = pids(supervised)
    (supervised.run_dir / "toy.json").write_text('{"refuse": "hadoop_export"}')
    supervised.behave("loyalty", "rewind")
    run = run_dag("stream_apps", {"action": "upgrade"}, **TOYS)
    assert run.tasks == {"pos_fanout": "success", "loyalty": "failed", "hadoop_export": "failed"}, run.log
    after = pids(supervised)
    assert after["pos_fanout"] not in {0, before["pos_fanout"]}
    assert "loyalty was drained at offset 10 of pos partition 0, but goes on at 0" in run.log
    assert after["loyalty"] not in {0, before["loyalty"]}, "it is restarted all the same"
    assert "hadoop_export runs on as it was" in run.log
    assert "a module is missing" in run.log
    assert after["hadoop_export"] == before["hadoop_export"]


def test_without_a_platform_the_message_says_how_to_start_one(run_dag: RunDag) -> None:
    run = run_dag("stream_apps", {"app": "loyalty"})
    assert run.state == "failed" or run.tasks["loyalty"] == "up_for_retry"
    assert "start the platform with `storekeeper up`" in run.log
