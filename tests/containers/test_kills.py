"""Kills at random times while a platform starts, is changed and runs a job, wherever it runs: the end is the same."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
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

KILLS = 20
SEEDS = {"host": 35, "container": 36, "systemd": 37}
"""By the place where the platform runs."""
BOARD = "spark_apps.leaderboard:LEADERBOARD"
# The configurations that follow one another: a node and an app come and go, an interval changes.
CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"apps": [POS], "nodes": ["a", "b"]},
    {"apps": [POS], "nodes": ["a", "b"], "trigger_interval_ms": 300},
    {"apps": [POS], "nodes": ["a"]},
    {"apps": [POS, BOARD], "nodes": ["a"]},
)
JOBS = (["snapshot", "create", "rewards"], ["app", "restart", "pos"])
LONGEST_S = {"apply": 8.0, "job": 6.0, "start": 15.0}
"""What is begun before a kill, and how long after that the kill is at most."""
ALL = "everything"
VICTIMS = {
    "the command": tuple(
        f"{program} {word}" for program in ("storekeeper", "entry") for word in ("apply", "up", "supervise")
    ),
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


@pytest.fixture(params=SEEDS)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def platform(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallPlatform]:
    if place == "host":
        with host_platform(tmp_path) as made:
            yield made
        return
    engine, image = request.getfixturevalue("engine"), request.getfixturevalue("image")
    with kept_platform(engine, image, tmp_path, by_systemd=place == "systemd") as kept:
        yield kept


def test_kills_at_random_times_change_no_end(platform: SmallPlatform, place: str) -> None:
    platform.start()
    given, chance, kills = SmallInput(platform), random.Random(SEEDS[place]), Counter[str]()
    begun_s = time.monotonic()
    for number in range(KILLS):
        what = [*LONGEST_S][number % 3]
        victim = "nothing"
        try:
            given.publish()
            begin(platform, what, number)
            threading.Event().wait(chance.uniform(0.3, LONGEST_S[what]))  # a random time is what this is about
            victim = kill_one(platform, chance, kills)
            mend(platform)
            if what == "job":
                finish(platform, f"job-{number}", job_of(number))
            given.check()
            assert left_to_do(platform) == []
            assert programs(platform) == configured(number)
        except Exception as error:
            error.add_note(f"seed {SEEDS[place]}, kill {number}: {what} was begun, {victim} was killed")
            raise
        print(f"{time.monotonic() - begun_s:4.0f} s, {number}: {what} was begun, {victim} was killed", flush=True)
    print(f"{place}: {dict(kills)}", flush=True)
    finish(platform, "last", JOBS[0])
    rows = platform.call("sql", "SELECT CustomerCardNo AS card, InvoiceCount AS count FROM rewards", "--output", "json")
    assert {row["card"]: row["count"] for row in map(json.loads, rows.stdout.splitlines())} == given.by_card()
    verified = platform.call("verify", "rewards")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def configuration(number: int) -> dict[str, Any]:
    """The configuration that holds in a round."""
    return CONFIGURATIONS[number // 3 % len(CONFIGURATIONS)]


def job_of(number: int) -> list[str]:
    """The job of a round that has one."""
    return JOBS[number // 3 % len(JOBS)]


def begin(platform: SmallPlatform, what: str, number: int) -> None:
    """Begins something, and waits for nothing."""
    if what == "apply":
        platform.configure(**configuration(number))
        platform.begin("apply")
    elif what == "job":
        platform.ask_job(f"job-{number}", job_of(number))
    else:
        platform.cut_power()
        platform.begin_start()


def kill_one(platform: SmallPlatform, chance: random.Random, kills: Counter[str]) -> str:
    """Kills what was killed least of all that runs, or everything. Returns its name."""
    running = platform.processes()
    there = {name: pids for name, words in VICTIMS.items() if (pids := matching(running, words))}
    fewest = min(kills[name] for name in (*there, ALL))
    victim = chance.choice([name for name in (*there, ALL) if kills[name] == fewest])
    try:
        if victim == ALL:
            platform.cut_power()
        else:
            os.kill(chance.choice(there[victim]), signal.SIGKILL)
    except ProcessLookupError:  # it has just ended by itself
        return kill_one(platform, chance, kills)
    kills[victim] += 1
    return victim


def matching(running: Mapping[int, str], words: tuple[str, ...]) -> list[int]:
    """The processes with any of these words."""
    return [pid for pid, command in sorted(running.items()) if any(word in command for word in words)]


def mend(platform: SmallPlatform) -> None:
    """Does what a person does, until the configuration is applied."""
    try:
        eventually(platform.mend, START_S, "the configuration is applied")
    except AssertionError as error:
        done = platform.call("apply")
        error.add_note(done.stdout + done.stderr + platform.logs())
        raise


def finish(platform: SmallPlatform, name: str, arguments: list[str]) -> None:
    """Asks for a job until it has succeeded."""

    def succeeded() -> bool:
        state = platform.job_state(name)
        if state in {"", "failed", "cancelled"}:
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


def configured(number: int) -> set[str]:
    """The processes that there have to be in a round."""
    now = configuration(number)
    apps = {app.partition(":")[0].rpartition(".")[2] for app in now["apps"]}
    return {"kafka", "control", *apps, *(f"node-{name}" for name in now["nodes"])}
