"""Kills at random times while a platform starts, is changed and runs a job, wherever it runs: the end is the same."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from storekeeper.ops.steps import Action
from tests.containers.host_platform import host_platform
from tests.containers.kept_platform import kept_platform
from tests.containers.small_input import SmallInput
from tests.containers.small_platform import POS, START_S, SmallPlatform

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.timeout(7200),
    pytest.mark.long("tests/ops/test_apply.py, test_foreground.py and test_killed_actions.py kill at each step"),
]

ROUNDS = 20
BOARD = "spark_apps.leaderboard:LEADERBOARD"
# The configurations that follow one another: an app and a node come and go, an interval changes.
CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"apps": [POS, BOARD], "nodes": ["a"]},
    {"apps": [POS, BOARD], "nodes": ["a", "b"]},
    {"apps": [POS], "nodes": ["a", "b"], "trigger_interval_ms": 300},
    {"apps": [POS], "nodes": ["a"]},
)
JOBS = (["snapshot", "create", "rewards"], ["app", "restart", "pos"])
ALL = "everything"
VICTIMS = {
    "the command": ("storekeeper apply", "entry apply", "storekeeper up", "entry up"),
    "the supervisor": ("supervisor.supervisord",),
    "who waits for it": ("foreground.py",),
    "an app": ("entry run",),
    "a JVM": ("org.apache.spark.deploy.SparkSubmit",),
    "a node": ("entry node",),
    "the control API": ("entry control",),
    "a job": ("entry snapshot",),
    "the broker": ("kafka.Kafka",),
}
"""By name: words of a command line."""


@pytest.fixture(params=["host", "container", "systemd"])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallPlatform]:
    if request.param == "host":
        with host_platform(tmp_path) as made:
            yield made
        return
    engine, image = request.getfixturevalue("engine"), request.getfixturevalue("image")
    with kept_platform(engine, image, tmp_path, by_systemd=request.param == "systemd") as kept:
        yield kept


def test_kills_at_random_times_change_no_end(platform: SmallPlatform) -> None:
    chance = random.Random(35)
    platform.start()
    given = SmallInput(platform)
    for number in range(ROUNDS):
        given.publish()
        disturbed = disturb(platform, chance, number)
        mend(platform, number)
        print(f"{number}: {disturbed}", flush=True)
    platform.await_working()
    given.check()
    assert left_to_do(platform) == []
    last = CONFIGURATIONS[(ROUNDS - 1) // 3 % len(CONFIGURATIONS)]
    apps = {app.partition(":")[0].rpartition(".")[2] for app in last["apps"]}
    assert programs(platform) == {"kafka", "control", *apps, *(f"node-{name}" for name in last["nodes"])}
    finish(platform, "last", JOBS[0])
    rows = platform.call("sql", "SELECT CustomerCardNo AS card, InvoiceCount AS count FROM rewards", "--output", "json")
    assert {row["card"]: row["count"] for row in map(json.loads, rows.stdout.splitlines())} == given.by_card()


def disturb(platform: SmallPlatform, chance: random.Random, number: int) -> str:
    """Begins something, and kills something that runs a little later. Returns both."""
    what = ("apply", "job", "start")[number % 3]
    if what == "apply":
        platform.configure(**CONFIGURATIONS[number // 3 % len(CONFIGURATIONS)])
        platform.begin("apply")
    elif what == "job":
        platform.ask_job(f"job-{number}", JOBS[number // 3 % len(JOBS)])
    else:
        platform.cut_power()
        platform.begin_start()
    threading.Event().wait(chance.uniform(0.5, 12))  # a random time is what this is about
    running = platform.processes()
    there = {name: pids for name, words in VICTIMS.items() if (pids := matching(running, words))}
    victim = chance.choice([*there, ALL])
    if victim == ALL:
        platform.cut_power()
    else:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(there[victim]), signal.SIGKILL)
    return f"{what}: {victim} was killed"


def matching(running: Mapping[int, str], words: tuple[str, ...]) -> list[int]:
    """The processes with any of these words."""
    return [pid for pid, command in sorted(running.items()) if any(word in command for word in words)]


def mend(platform: SmallPlatform, number: int) -> None:
    """Does what a person and Airflow do: until the configuration is applied, and the job has succeeded."""
    try:
        eventually(platform.mend, START_S, "the configuration is applied")
    except AssertionError as error:
        done = platform.call("apply")
        error.add_note(done.stdout + done.stderr + platform.logs())
        raise
    if number % 3 == 1:
        finish(platform, f"job-{number}", JOBS[number // 3 % len(JOBS)])


def finish(platform: SmallPlatform, name: str, arguments: list[str]) -> None:
    """Asks for a job until it has succeeded."""

    def succeeded() -> bool:
        state = platform.job_state(name)
        if state in {"", "failed"}:
            platform.ask_job(name, arguments)
        return state == "succeeded"

    eventually(succeeded, START_S, f"the job {name} succeeds")


def left_to_do(platform: SmallPlatform) -> list[dict[str, Any]]:
    """The steps that `apply` has left; a new generation is no step of it."""
    planned = json.loads(platform.call("plan", "--output", "json").stdout)
    return [step for step in planned["steps"] if step["action"] != Action.GENERATION]


def programs(platform: SmallPlatform) -> set[str]:
    """The processes that there are; those of next generations wait for one."""
    told = json.loads(platform.call("status", "--output", "json").stdout)["processes"]
    return {one["name"] for one in told if not one["name"].endswith("-next")}
