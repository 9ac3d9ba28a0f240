from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from storekeeper.ops.control.app_control import AppFailedError
from storekeeper.ops.control.node_roll import NodeRoll, held_alone
from storekeeper.ops.supervisor_rpc import ProcessInfo

BEGAN_S = 1000


def member(name: str, *partitions: int, suspect: bool = False, serving: bool = True) -> dict[str, Any]:
    replicas = [{"store": "rewards", "partition": number, "serving": serving} for number in partitions]
    return {"name": name, "heard": True, "suspect": suspect, "replicas": replicas}


@dataclass
class Nodes:
    """Nodes instead of real ones: a stop ends one at once, a start makes it cold until the test warms it."""

    names: tuple[str, ...]
    started_s: dict[str, int] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    cold: set[str] = field(default_factory=set)
    did: list[str] = field(default_factory=list)
    exit_status: int = 0
    now_s: int = BEGAN_S + 5

    def process(self, name: str) -> ProcessInfo:
        return ProcessInfo(
            name, self.states.get(name, "RUNNING"), 1, self.started_s.get(name, 0) * 1000, self.exit_status
        )

    def start(self, name: str) -> bool:
        self.did.append(f"start {name}")
        self.states[name], self.started_s[name] = "RUNNING", self.now_s
        self.cold.add(name.removeprefix("node-"))
        return True

    def stop(self, name: str) -> bool:
        self.did.append(f"stop {name}")
        self.states[name] = "STOPPED"
        return True

    def log_end(self, name: str) -> str:
        return "the last words"

    def is_warm(self, node: str) -> bool:
        return node not in self.cold

    def cluster(self) -> Mapping[str, Any] | None:
        live = [name for name in self.names if self.states.get(f"node-{name}", "RUNNING") == "RUNNING"]
        return {"members": [member(name, 0, 1, serving=name not in self.cold) for name in live]}

    def roll(self) -> NodeRoll:
        return NodeRoll(self.names, cast("Any", self), cast("Any", self), BEGAN_S)


def test_a_node_that_started_while_the_clock_was_ahead_is_not_done() -> None:
    nodes = Nodes(("a", "b"))
    nodes.started_s |= {"node-a": int(time.time()) + 86_400, "node-b": BEGAN_S}
    for _ in range(2):
        assert nodes.roll().step() is not None
    nodes.cold.clear()
    assert nodes.roll().step() is None
    assert nodes.did == ["stop node-a", "start node-a"]


def test_a_node_is_stopped_only_when_the_one_before_is_warm_again() -> None:
    nodes = Nodes(("a", "b"))
    for _ in range(5):
        assert nodes.roll().step() is not None  # a new one each time: it keeps nothing
    assert nodes.did == ["stop node-a", "start node-a"]
    nodes.cold.clear()
    for _ in range(3):
        assert nodes.roll().step() is not None
    nodes.cold.clear()
    assert nodes.roll().step() is None
    assert nodes.did == ["stop node-a", "start node-a", "stop node-b", "start node-b"]


def test_a_node_that_alone_can_answer_stays_up() -> None:
    nodes = Nodes(("a", "b"), cold={"b"})
    assert nodes.roll().step() == ("no other node can answer for rewards/0, rewards/1, so node-a has to stay up")
    assert nodes.did == []
    alone = Nodes(("a",))
    assert "has to stay up" in str(alone.roll().step())


def test_a_node_that_does_not_come_back_ends_the_round() -> None:
    nodes = Nodes(("a", "b"), started_s={"node-a": BEGAN_S}, states={"node-a": "EXITED"}, exit_status=78)
    with pytest.raises(AppFailedError, match=r"exit code 78 after its restart.*\nthe last words"):
        nodes.roll().step()
    nodes.exit_status = 1  # supervisor starts it again by itself
    nodes.cold.add("a")
    assert nodes.roll().step() == "node-a isn't warm yet"
    assert nodes.did == []


def test_who_could_answer_is_told_by_those_that_were_heard_of() -> None:
    assert held_alone({"members": [member("a", 0, 1), member("b", 1)]}, "a") == ["rewards/0"]
    assert held_alone({"members": [member("a", 0), member("b", 0, suspect=True)]}, "a") == ["rewards/0"]
    assert held_alone({"members": [member("a", 0), member("b", 0) | {"heard": False}]}, "a") == ["rewards/0"]
    assert held_alone({"members": [member("a", 0), member("b", 0)]}, "a") == []
