"""Applying a configuration to a platform that runs: only what differs is touched, and an interruption is resumed."""

from __future__ import annotations

import configparser
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storekeeper.apps import registry
from storekeeper.generations.changes.contract import Description
from storekeeper.ops import apply as module
from storekeeper.ops import waiting
from storekeeper.ops.apply import apply
from storekeeper.ops.bring_up import Trouble
from storekeeper.ops.effective import effective, write_started_with
from storekeeper.ops.environment import Instance
from storekeeper.ops.errors import DiskSpaceError, ImpossibleChangeError, PortTakenError
from storekeeper.ops.lost_topics import Losses
from storekeeper.ops.paced_exec import next_pause_s
from storekeeper.ops.platform_apps import KnownStore, known_stores
from storekeeper.ops.platform_state import planned
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import write_conf
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc

NOTHING_RUNS = Description(0, {}, {})
HELD: dict[str, str] = {}
"""What the last call of `bring_up` was told not to start."""


class Cut(BaseException):
    """Ends a command as `kill -9` does: nothing cleans up."""


@dataclass
class Supervisor(SupervisorRpc):
    """A supervisor of processes that do nothing, by the configuration file; it ends a command at its n-th call."""

    conf: Path
    config: Path
    states: dict[str, str] = field(default_factory=dict)
    active: dict[str, Mapping[str, str]] = field(default_factory=dict)
    started_s: dict[str, int] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    cut_at: int = -1
    now_s: int = 1000

    def _next(self, what: str) -> None:
        if len(self.did) == self.cut_at:
            raise Cut
        self.did.append(what)

    def sections(self) -> dict[str, dict[str, str]]:
        parsed = configparser.RawConfigParser()
        parsed.read(self.conf)
        return {
            name.removeprefix("program:"): dict(parsed[name])
            for name in parsed.sections()
            if name.startswith("program:")
        }

    def update(self, name: str) -> None:
        self._next(f"update {name}")
        there = self.sections()
        if self.active.get(name) == there.get(name):
            return
        assert self.states.get(name, "STOPPED") in {"STOPPED", "EXITED"}, f"{name} still runs"
        self.active.pop(name, None)
        self.states.pop(name, None)
        if name in there:
            self.active[name], self.states[name] = there[name], "STOPPED"

    def start(self, name: str) -> bool:
        if self.states[name] == "RUNNING":
            return False
        self._next(f"start {name}")
        self.now_s += 1
        self.states[name], self.started_s[name] = "RUNNING", self.now_s
        _, _, record, *command = shlex.split(self.active[name]["command"].replace("%%", "%"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("STOREKEEPER_CONFIG", str(self.config))
            next_pause_s(Path(record), self.now_s, command)
        return True

    def stop(self, name: str) -> bool:
        if self.states[name] != "RUNNING":
            return False
        self._next(f"stop {name}")
        self.states[name] = "STOPPED"
        return True

    def log_end(self, name: str) -> str:
        return f"the last words of {name}"

    def process(self, name: str) -> ProcessInfo:
        return ProcessInfo(name, self.states[name], 1, self.started_s.get(name, 0) * 1000, 0)

    def processes(self) -> list[ProcessInfo]:
        return [self.process(name) for name in sorted(self.states)]

    @property
    def running(self) -> set[str]:
        return {name for name, state in self.states.items() if state == "RUNNING"}


class Views:
    """Nodes that are ready as soon as they run, and can answer for each other."""

    def __init__(self, *_: object) -> None: ...

    def is_warm(self, _: str) -> bool:
        return True

    def cluster(self) -> Mapping[str, Any]:
        names = [name.removeprefix("node-") for name in self.supervisor.running if name.startswith("node-")]
        rows = [{"store": "rewards", "partition": 0, "serving": True}]
        return {"members": [{"name": name, "heard": True, "suspect": False, "replicas": rows} for name in names]}

    supervisor: Supervisor


@dataclass
class Bench:
    """A platform of toy processes, and the configuration of now."""

    run_dir: Path
    supervisor: Supervisor
    configured: Callable[[str], None]

    def instance(self, **settings: object) -> Instance:
        return Instance.of(PlatformSettings.load(run_dir=self.run_dir, **settings))

    def apply(self, **settings: object) -> tuple[Trouble, ...]:
        return apply(self.instance(**settings), self.supervisor, lambda _: None)

    def begin(self, **settings: object) -> None:
        instance = self.instance(**settings)
        instance.layout.make()
        write_conf(instance.layout, instance.settings, instance.programs)
        write_started_with(instance.layout, effective(instance.settings))
        for program in instance.programs:
            self.supervisor.update(program.name)
        bring_up(instance, self.supervisor, lambda _: None)
        self.supervisor.did.clear()


def bring_up(
    instance: Instance, client: Any, report: object, *, accept_loss: bool = False, held: Mapping[str, str] | None = None
) -> tuple[Trouble, ...]:
    """Starts what is not held, and not stopped by a person."""
    del report, accept_loss
    HELD.clear()
    HELD.update(held or {})
    for program in instance.programs:
        if not program.name.endswith("-next") and program.name not in (held or {}):
            client.start(program.name)
    return tuple(Trouble(name, why) for name, why in (held or {}).items() if why)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    @contextmanager
    def no_client(_: object) -> Iterator[None]:
        yield

    run_dir = tmp_path / "run"
    supervisor = Supervisor(run_dir / "supervisor" / "supervisord.conf", run_dir / "settings.toml")
    views = type("TheseViews", (Views,), {"supervisor": supervisor})
    monkeypatch.setattr(module, "describe", lambda *_: NOTHING_RUNS)
    monkeypatch.setattr(module, "bring_up", bring_up)
    monkeypatch.setattr(module, "collect_status", lambda _: SimpleNamespace(healthy=True, processes=[]))
    monkeypatch.setattr(module, "continue_frozen", lambda *_: None)
    monkeypatch.setattr(module, "losses_of", lambda _: Losses({}, 3))
    monkeypatch.setattr(module, "node_client", no_client)
    monkeypatch.setattr(module, "NodeViews", views)
    monkeypatch.setattr(module, "_POLL_S", 0)
    monkeypatch.setenv("STOREKEEPER_SHARED_APPS", "")
    monkeypatch.setattr("storekeeper.ops.apply.check_ports", lambda _: None)

    def configured(name: str) -> None:
        """Has the configuration name one app alone."""
        for place in ("storekeeper.ops.platform_state", "storekeeper.ops.bring_up"):
            monkeypatch.setattr(f"{place}.DRIVERS", {name: (name,)})
        kept = {name: registry.APPS[name]}
        for place in ("apply", "platform_state"):
            monkeypatch.setattr(f"storekeeper.ops.{place}.APPS", kept)
        monkeypatch.setattr("storekeeper.apps.registry.APPS", kept)
        monkeypatch.setattr("storekeeper.apps.registry.DRIVERS", {name: (name,)})

    return Bench(run_dir, supervisor, configured)


def test_a_platform_that_is_as_it_should_be_is_left_alone(bench: Bench) -> None:
    bench.begin()
    assert bench.apply() == ()
    assert bench.supervisor.did == []


def test_lost_topics_are_told_of_though_everything_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    trouble = Trouble("views", "can't start")
    monkeypatch.setattr(module, "bring_up", lambda *_, **__: (trouble,))
    monkeypatch.setattr(module, "losses_of", lambda _: Losses({"views": {"views-log": "deleted"}}, 3))
    assert bench.apply() == (trouble,)
    assert apply(bench.instance(), bench.supervisor, lambda _: None, accept_loss=True) == ()


def test_what_hangs_is_ended_before_all_that_does_not_run_is_started(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.begin()
    did: list[str] = []
    monkeypatch.setattr(module, "continue_frozen", lambda *_: did.append("continue"))
    monkeypatch.setattr(module, "end_hanging", lambda *_: did.append("end"))
    monkeypatch.setattr(module, "bring_up", lambda *_, **__: (did.append("start"), ())[1])  # type: ignore[func-returns-value]
    bench.apply()
    assert did == ["continue"]
    monkeypatch.setattr(module, "collect_status", lambda _: SimpleNamespace(healthy=False, processes=[]))
    bench.apply()
    assert did == ["continue", "continue", "end", "start"]


def test_little_room_refuses_only_what_would_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    said: list[str] = []
    monkeypatch.setattr("storekeeper.ops.machine.ROOM_MB", 10**9)
    assert apply(bench.instance(), bench.supervisor, said.append) == ()
    assert re.fullmatch(rf"everything runs already, but only \d+ MB of disk are free under {bench.run_dir}", said[-1])
    monkeypatch.setattr(module, "collect_status", lambda _: SimpleNamespace(healthy=False, processes=[]))
    with pytest.raises(DiskSpaceError, match="free at least"):
        bench.apply()


def test_a_setting_of_apps_restarts_the_apps_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    monkeypatch.setenv("STOREKEEPER_TRIGGER_INTERVAL_MS", "7")
    assert bench.apply() == ()
    touched = {word.split()[1] for word in bench.supervisor.did if not word.startswith("update")}
    assert touched == {name for name in bench.supervisor.states if name in bench.supervisor.running} & touched
    assert not any(name.startswith(("node-", "kafka", "control")) for name in touched)
    assert "stop pos" in bench.supervisor.did
    assert planned(bench.instance(), bench.supervisor, NOTHING_RUNS) == ()


def test_a_setting_of_nodes_restarts_the_nodes_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    monkeypatch.setenv("STOREKEEPER_MAX_SCANS", "1")
    assert bench.apply() == ()
    touched = {word.split()[1] for word in bench.supervisor.did if not word.startswith("update")}
    assert touched == {name for name in bench.supervisor.running if name.startswith("node-")} != set()
    assert planned(bench.instance(), bench.supervisor, NOTHING_RUNS) == ()


def test_nodes_are_added_first_and_restarted_one_after_the_other(bench: Bench) -> None:
    bench.begin(node_names="a,b", replicas=1)
    assert bench.apply(node_names="a,b,c") == ()
    assert bench.supervisor.did[-1] == "start node-c"
    assert {"node-a", "node-b", "node-c"} <= bench.supervisor.running
    assert not any(word.startswith("stop") for word in bench.supervisor.did), "the others go on"


def test_a_node_is_removed_once_others_can_answer(bench: Bench) -> None:
    bench.begin(node_names="a,b,c")
    (bench.run_dir / "state" / "c").mkdir(parents=True)
    assert bench.apply(node_names="a,b") == ()
    assert [word for word in bench.supervisor.did if "node-" in word] == ["stop node-c", "update node-c"]
    assert HELD == {"node-c": ""}, "nobody waits for its health meanwhile"
    assert "node-c" not in bench.supervisor.states
    assert not (bench.run_dir / "state" / "c").exists()


def test_a_node_that_nobody_can_stand_in_for_stays_and_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin(node_names="a,b")
    monkeypatch.setattr(module, "held_alone", lambda *_: ["rewards/0"])
    moments = iter(range(10**6))
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: next(moments), sleep=time.sleep))
    (trouble,) = bench.apply(node_names="a", start_timeout_s=10)
    assert trouble.name == "node-b"
    assert "no other node can answer for rewards/0" in trouble.why
    assert "node-b" in bench.supervisor.running


def test_a_removed_app_keeps_its_stores_which_nodes_go_on_serving(bench: Bench) -> None:
    bench.begin()
    before = known_stores(bench.run_dir)
    assert before["rewards"] == KnownStore("pos", "rewards=pos-rewards-changelog")
    bench.configured("hadoop_export")
    assert bench.apply() == ()
    assert "pos" not in bench.supervisor.states
    assert "hadoop_export" in bench.supervisor.running
    assert known_stores(bench.run_dir)["rewards"] == before["rewards"]
    assert "rewards=pos-rewards-changelog" in (bench.run_dir / "settings.toml").read_text()
    assert not any("stop node-" in word for word in bench.supervisor.did), "they serve the same stores"


def test_what_can_not_be_done_is_refused_before_anything_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    monkeypatch.setenv("STOREKEEPER_TRIGGER_INTERVAL_MS", "7")
    with pytest.raises(ImpossibleChangeError, match=r"kafka_port can't be done: 19092 -> 1; next start.*Nothing was"):
        bench.apply(kafka_port=1)
    assert bench.supervisor.did == []
    assert "trigger_interval_ms" not in (bench.run_dir / "settings.toml").read_text()


def test_only_ports_that_the_platform_does_not_have_yet_are_checked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(ports: Mapping[str, int]) -> None:
        assert list(ports.values()) == [18103]
        raise PortTakenError("Port 18103 is taken")

    bench.begin(node_names="a,b")
    monkeypatch.setattr("storekeeper.ops.apply.check_ports", check)
    with pytest.raises(PortTakenError):
        bench.apply(node_names="a,b,c")
    assert bench.supervisor.did == []


@pytest.mark.parametrize("cut_at", range(40))
def test_one_that_is_killed_anywhere_is_finished_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, cut_at: int
) -> None:
    """Another node, an app less, another interval, and another size of logs, all at once."""
    bench.begin(node_names="a,b")
    bench.configured("hadoop_export")
    monkeypatch.setenv("STOREKEEPER_TRIGGER_INTERVAL_MS", "7")
    changed = {"node_names": "b,c", "jars_dir": "/elsewhere"}
    bench.supervisor.cut_at = cut_at
    try:
        bench.apply(**changed)
    except Cut:
        bench.supervisor.cut_at = -1
        assert bench.apply(**changed) == ()
    instance = bench.instance(**changed)
    assert planned(instance, bench.supervisor, NOTHING_RUNS) == ()
    wanted = {program.name for program in instance.programs}
    assert {*bench.supervisor.states} == wanted
    assert bench.supervisor.running == {name for name in wanted if not name.endswith("-next")}
    assert bench.supervisor.active == bench.supervisor.sections(), "each by its command of now"


def test_the_supervisor_of_a_process_that_is_unknown_is_told_of_it(bench: Bench) -> None:
    bench.begin()
    del bench.supervisor.states["pos"], bench.supervisor.active["pos"]
    assert bench.apply() == ()
    assert "pos" in bench.supervisor.running
