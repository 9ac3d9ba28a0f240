"""One container whose command is `storekeeper supervise`, as tight as the compose file makes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.container_engine import Engine
from harness.waiting import eventually
from tests.containers.kept_platform import USER, KeptPlatform, kept_platform
from tests.containers.small_input import SmallInput
from tests.containers.small_platform import START_S

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.timeout(3600),
    pytest.mark.long("tests/ops/containers and test_foreground.py need no engine"),
]


@pytest.fixture(scope="module")
def platform(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptPlatform]:
    with kept_platform(engine, image, tmp_path_factory.mktemp("one"), by_systemd=False) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def given(platform: KeptPlatform) -> SmallInput:
    return SmallInput(platform)


def test_the_image_has_the_licence_and_no_secret(engine: Engine, image: str) -> None:
    licence = engine.says("run", "--rm", image, "cat", "/app/LICENSE")
    assert licence == (Path(__file__).parents[2] / "LICENSE").read_text().strip()
    settings = engine.inspect(image)["Config"]
    assert settings["User"] == "storekeeper"
    assert not [name for name in settings["Env"] if "TOKEN" in name or "PASSWORD" in name or "SECRET" in name]


def test_it_works_without_rights_and_writes_to_its_run_directory_alone(
    platform: KeptPlatform, given: SmallInput
) -> None:
    given.publish()
    given.check()
    status = platform.engine.says(
        "exec", platform.name, "grep", "-E", "^(Uid|CapEff|CapBnd|NoNewPrivs)", "/proc/1/status"
    )
    facts = {name: values.split() for name, values in (line.split(":") for line in status.splitlines())}
    assert set(facts["Uid"]) == {str(USER)}
    assert (set(facts["CapEff"][0]), set(facts["CapBnd"][0]), facts["NoNewPrivs"]) == ({"0"}, {"0"}, ["1"])
    written = platform.engine.call("exec", platform.name, "touch", "/var/tmp/new", check=False)
    assert "Read-only file system" in written.stderr


def test_a_killed_app_is_started_again_and_nothing_is_lost_or_doubled(
    platform: KeptPlatform, given: SmallInput
) -> None:
    given.publish()
    assert platform.engine.kill_process(platform.name, "entry run pos")
    platform.await_working()
    given.check()


def test_commands_stop_and_start_an_app(platform: KeptPlatform, given: SmallInput) -> None:
    stopped = platform.call("app", "stop", "pos")
    assert stopped.returncode == 0, stopped.stderr
    eventually(lambda: not runs(platform, "entry run pos"), START_S, "the app has stopped")
    given.publish()
    started = platform.call("app", "start", "pos")
    assert started.returncode == 0, started.stderr
    platform.await_working()
    given.check()


def test_the_engine_starts_it_again_when_the_supervisor_is_killed(platform: KeptPlatform, given: SmallInput) -> None:
    given.publish()
    before = restarts(platform)
    assert platform.engine.kill_process(platform.name, "supervisor.supervisord")
    eventually(
        lambda: restarts(platform) > before,
        START_S,
        "the engine has started it again",
    )
    platform.await_working()
    given.check()


def test_a_stop_is_clean(platform: KeptPlatform, given: SmallInput) -> None:
    given.publish()
    platform.engine.call("stop", "--time", "300", platform.name)
    state = platform.engine.inspect(platform.name)["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    beat = (platform.folder.parent / "run" / "heartbeats" / "pos.json").read_text()
    assert '"STOPPED"' in beat
    platform.start()
    given.check()


def restarts(platform: KeptPlatform) -> int:
    """How often the engine has started it again."""
    return int(platform.engine.inspect(platform.name)["RestartCount"])


def runs(platform: KeptPlatform, words: str) -> bool:
    """Whether a process with these words runs inside."""
    return any(words in command for command in platform.engine.processes(platform.name).values())
