"""The unit under a real systemd, which is process 1 of a container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.container_engine import Engine
from harness.waiting import eventually
from tests.containers.kept_platform import KeptPlatform, kept_platform
from tests.containers.small_input import SmallInput
from tests.containers.small_platform import START_S

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.timeout(3600),
    pytest.mark.long("tests/ops/test_systemd.py and test_foreground.py need no systemd"),
]


@pytest.fixture(scope="module")
def host(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptPlatform]:
    with kept_platform(engine, image, tmp_path_factory.mktemp("host"), by_systemd=True) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def given(host: KeptPlatform) -> SmallInput:
    return SmallInput(host)


def shown(host: KeptPlatform, name: str) -> str:
    """A property of the unit."""
    return host.inside("systemctl", "show", "--value", "--property", name, "storekeeper")


def test_the_unit_runs_and_the_journal_has_what_it_says(host: KeptPlatform, given: SmallInput) -> None:
    given.publish()
    given.check()
    assert [shown(host, name) for name in ("User", "ActiveState", "SubState")] == ["storekeeper", "active", "running"]
    assert "waiting until every app and node works" in host.logs()
    pid = next(pid for pid, command in host.engine.processes(host.name).items() if "foreground.py" in command)
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    options = {place: words.split(",") for _, place, _, words, *_ in mounts}
    assert "ro" in options["/"], "ProtectSystem is in force"
    assert "rw" in options[host.run_dir]


def test_commands_stop_and_start_an_app(host: KeptPlatform, given: SmallInput) -> None:
    for command in ("stop", "start", "restart"):
        done = host.call("app", command, "pos")
        assert done.returncode == 0, done.stderr
    host.await_working()
    given.publish()
    given.check()


@pytest.mark.parametrize("words", ["entry run pos", "entry node a"])
def test_a_killed_process_is_started_again_within_the_unit(host: KeptPlatform, given: SmallInput, words: str) -> None:
    main = shown(host, "MainPID")
    given.publish()
    assert host.engine.kill_process(host.name, words)
    host.await_working()
    given.check()
    assert shown(host, "MainPID") == main


def test_systemd_starts_all_again_when_the_supervisor_is_killed(host: KeptPlatform, given: SmallInput) -> None:
    given.publish()
    main = shown(host, "MainPID")
    assert host.engine.kill_process(host.name, "supervisor.supervisord")
    eventually(lambda: shown(host, "MainPID") not in {main, "0"}, START_S, "systemd has started it again")
    host.await_working()
    given.check()
    assert "the supervisor has ended by itself" in host.logs()


def test_a_stop_is_clean_and_apps_finish_their_batches(host: KeptPlatform, given: SmallInput) -> None:
    given.publish()
    host.inside("systemctl", "stop", "storekeeper")
    assert [shown(host, name) for name in ("ActiveState", "Result", "ExecMainStatus")] == ["inactive", "success", "0"]
    assert '"STOPPED"' in host.inside("cat", f"{host.run_dir}/heartbeats/pos.json")
    assert not [command for command in host.engine.processes(host.name).values() if "/app/" in command]
    host.inside("systemctl", "start", "--no-block", "storekeeper")
    host.await_working()
    given.check()


@pytest.mark.parametrize("clean", [True, False], ids=["shutdown", "power loss"])
def test_after_a_reboot_it_goes_on(host: KeptPlatform, given: SmallInput, clean: bool) -> None:
    given.publish()
    host.engine.call(*(("stop", "--time", "300") if clean else ("kill",)), host.name)
    host.start()
    given.check()
