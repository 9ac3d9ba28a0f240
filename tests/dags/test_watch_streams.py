from __future__ import annotations

import pytest

from spark_apps.registry import APPS
from tests.dags.conftest import RunDag
from tests.dags.supervised import Supervised

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

QUICK = {"STOREKEEPER_WATCH_STALE_S": "2", "STOREKEEPER_WATCH_START_S": "2"}


def test_healthy_and_stopped_apps_are_left_alone_and_a_silent_one_is_restarted_then_reported(
    run_dag: RunDag, supervised: Supervised
) -> None:
    supervised.behave("loyalty", "silent")
    for app in ("pos_fanout", "loyalty"):
        supervised.rpc.start(app)
        supervised.await_state(app, "RUNNING")
    before = {app: supervised.rpc.process(app).pid for app in APPS}
    run = run_dag("watch_streams", **QUICK)
    assert run.state == "success", run.log
    looked = run.results["watch"]
    assert [looked[app]["action"] for app in APPS] == ["none", "restart", "none"]
    assert looked["hadoop_export"]["reason"] == "stopped"
    after = {app: supervised.rpc.process(app).pid for app in APPS}
    assert after["loyalty"] not in {0, before["loyalty"]}
    assert after == {**before, "loyalty": after["loyalty"]}
    run = run_dag("watch_streams", STOREKEEPER_WATCH_RESTARTS="1", **QUICK)
    assert run.state == "failed"
    assert "loyalty needs attention: the last heartbeat is" in run.log
    assert "1 restarts did not help" in run.log
    assert "toy loyalty is in the mood to silent" in run.log
    assert supervised.rpc.process("loyalty").pid == after["loyalty"]


def test_an_app_that_ended_by_itself_is_started_and_a_misconfigured_one_reported(
    run_dag: RunDag, supervised: Supervised
) -> None:
    supervised.behave("pos_fanout", "crash")
    supervised.behave("loyalty", "misconfigured")
    for app in ("pos_fanout", "loyalty"):
        supervised.rpc.start(app)
        supervised.await_state(app, "EXITED")
    supervised.behave("pos_fanout", "run")
    run = run_dag("watch_streams")
    assert run.state == "failed"
    assert "loyalty needs attention: ended because of its configuration (topic pos is missing: create it)" in run.log
    assert supervised.rpc.process("pos_fanout").state == "RUNNING"
    assert supervised.rpc.process("loyalty").state == "EXITED"
