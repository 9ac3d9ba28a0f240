"""Airflow is killed again and again while apps stream: none is doubled, nothing is left, no total differs."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from harness.project_apps import TILL_APPS
from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import stop_everything
from storekeeper.ops.waiting import eventually
from tests.integration.airflow_kills import AppWatch, ask_for, kill_program, kill_task, wait_for_no_strays
from tests.integration.platform_process import PlatformProcess

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(3600)]

_log = logging.getLogger(__name__)

KILLS = 50
_PURCHASES_PER_S = 10
_S_PER_KILL = 12
_RUNS_S = 300


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    made = PlatformProcess.in_folder(tmp_path / "run")
    yield made
    stop_everything(RunLayout(made.run_dir))


@pytest.mark.long("tests/integration/test_platform.py kills Airflow a few times")
def test_streams_do_not_notice_that_airflow_is_killed(platform: PlatformProcess, tmp_path: Path) -> None:
    purchases = KILLS * _S_PER_KILL * _PURCHASES_PER_S
    report_path, run_dir = tmp_path / "report.json", platform.run_dir
    demo = platform.begin_demo(
        "--rate",
        str(_PURCHASES_PER_S),
        "--purchases",
        str(purchases),
        "--report",
        str(report_path),
    )
    watch = AppWatch(tuple(TILL_APPS), run_dir)
    try:
        assert eventually(lambda: all(_works(run_dir, app) for app in TILL_APPS) or demo.poll() is not None, _RUNS_S)
        assert demo.poll() is None, demo.communicate()[0]
        with watch.watching():
            outcomes = _kill_over_and_over(run_dir, random.Random(7))
        assert demo.poll() is None, "the demo had ended before the last kill: nothing streamed any more"
        output, _ = demo.communicate(timeout=1200)
    finally:
        if demo.poll() is None:
            demo.terminate()
            demo.communicate(timeout=120)
    assert demo.returncode == 0, output
    report = json.loads(report_path.read_text())
    assert (report["verdict"], report["difference_count"]) == ("green", 0)
    assert len(outcomes) == KILLS
    assert sum(outcome == "no task ran" for outcome in outcomes) <= KILLS // 10, outcomes
    assert watch.doubled == []
    assert watch.samples > KILLS
    # Nobody has asked for a restart of this one, and whatever befell Airflow, nothing has befallen it.
    assert {app: len(pids) for app, pids in watch.pids.items() if app != "pos"} == {"hadoop_export": 1}


def _works(run_dir: Path, app: str) -> bool:
    beat = read_heartbeat(RunLayout(run_dir).heartbeat(app))
    return beat is not None and beat.state is AppState.RUNNING and beat.input_rows_total > 0


def _kill_over_and_over(run_dir: Path, rng: random.Random) -> list[str]:
    """What came of each kill. After each, nothing may be left without an owner."""
    outcomes = []
    for number, victim in enumerate(islice(cycle(("airflow-scheduler", "a task", "airflow-triggerer")), KILLS)):
        action = "restart" if number % 5 == 4 else "start"
        app = "pos" if action == "restart" else rng.choice(list(TILL_APPS))
        asked = ask_for(run_dir, app, action)
        if victim == "a task":
            outcomes.append("killed" if kill_task(run_dir) else "no task ran")
        else:
            kill_program(run_dir, victim)
            outcomes.append("killed")
        left = wait_for_no_strays(run_dir)
        _log.info("kill %s: %s while %s of %s was asked for: %s", number + 1, victim, action, app, outcomes[-1])
        assert left == [], (number, victim, action, asked)
    return outcomes
