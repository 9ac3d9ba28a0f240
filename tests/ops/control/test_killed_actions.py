"""Every action on an app, killed by KILL at each of its effects and begun again, on a real supervisor: the same end.

The check of the code ahead of an upgrade changes nothing, takes Spark, and is left out.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.dying_command import Commands
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.lease import job_held
from storekeeper.engine.runtime.scale import read_scale
from storekeeper.ops.control.app_actions import ACTIONS
from storekeeper.ops.waiting import eventually
from tests.ops.control.supervised import Supervised, environment

WORDS = {"scale": ("--cores", "4")}
AHEAD = {"start": "stop", "scale": "restart"}
"""What brings an app into the state that an action changes, if `start` does not."""


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.begun("storekeeper.cli.app", "storekeeper.ops.control.app_actions") as found:
        yield found


@dataclass(frozen=True, slots=True)
class Trials:
    supervised: Supervised
    commands: Commands
    output: Path

    def call(self, action: str, at: int = 0) -> tuple[int, dict[str, Any]]:
        words = ("app", action, "pos", *WORDS.get(action, ()), "--output", "json")
        given = environment(self.supervised.run_dir)
        code = self.commands.run(words, given, at, self.output, without=["storekeeper.cli.app:check_code"])
        lines = self.output.read_text().splitlines()
        return code, json.loads(lines[-1]) if code == 0 else {"said": lines}

    def prepare(self, action: str) -> None:
        """The app runs as it always did; for `start` it is stopped."""
        (self.supervised.run_dir / "scale" / "pos.json").unlink(missing_ok=True)
        assert self.call(AHEAD.get(action, "start"))[0] == 0

    def end(self) -> tuple[str, bool, Any]:
        folder = self.supervised.run_dir
        scale = read_scale(folder / "scale" / "pos.json")
        return self.supervised.rpc.process("pos").state, (folder / "stopped" / "pos").exists(), scale


@pytest.fixture
def trials(supervised: Supervised, commands: Commands, tmp_path: Path) -> Trials:
    return Trials(supervised, commands, tmp_path / "output")


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_that_is_killed_and_begun_again_ends_the_same(trials: Trials, action: str) -> None:
    trials.prepare(action)
    assert trials.call(action)[0] == 0
    whole = trials.end()
    for at in count(1):
        trials.prepare(action)
        code, _ = trials.call(action, at)
        if code != -signal.SIGKILL:
            break
        assert trials.call(action)[0] == 0
        assert trials.end() == whole, f"killed at effect {at}"
    assert at > 1


def test_of_two_actions_on_an_app_the_second_waits(trials: Trials) -> None:
    with ThreadPoolExecutor(1) as thread:
        with job_held("pos", "change", AppSettings.load(run_dir=trials.supervised.run_dir)):
            called = thread.submit(trials.call, "restart")
            assert eventually(lambda: trials.output.exists() and "lease=pos@change" in trials.output.read_text(), 60)
        code, answer = called.result()
    assert code == 0, answer
