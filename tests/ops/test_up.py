"""Starts that can't succeed: one sentence, an exit code, and nothing left behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from storekeeper.ops.apply import check_no_other, up
from storekeeper.ops.environment import Instance
from storekeeper.ops.errors import AlreadyRunningError, SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import exclusive
from storekeeper.ops.settings import OwnPlatformSettings, PlatformSettings
from storekeeper.ops.supervisor import find_orphans, forget_removed_apps
from storekeeper.run_dir import remember_started
from tests.integration.platform_process import PlatformProcess
from tests.ops.called_command import Call


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.mark.parametrize("seen", [0, 1])
def test_a_platform_whose_supervisor_ends_is_not_started_by_apply(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """It would run beside the unit of systemd, or the container's command, that starts it again."""
    found = iter([object()] * seen)
    monkeypatch.setattr("storekeeper.ops.apply.running_supervisor", lambda _: next(found, None))
    instance = Instance.of(PlatformSettings.load(run_dir=run_dir))
    with pytest.raises(SupervisorUnreachableError, match="is down: `storekeeper up` starts it"):
        up(instance, lambda _: None, only_running=True)
    assert run_dir.exists() is bool(seen)


def test_a_taken_port_is_one_sentence(run_dir: Path) -> None:
    """In a process of its own: none of those that it started outlives it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        done = PlatformProcess.in_folder(run_dir, airflow_port=str(port)).call("up")
    assert done.returncode == 1
    assert f"storekeeper: Port {port} is taken by " in done.stderr
    assert "`airflow_port`" in done.stderr
    assert "Traceback" not in done.stderr
    assert find_orphans(run_dir) == []


def test_missing_jars_are_one_sentence(call: Call, run_dir: Path, tmp_path: Path) -> None:
    done = call(PlatformProcess.in_folder(run_dir, jars_dir=str(tmp_path / "none")), "up")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].endswith("run `storekeeper jars`.")
    assert "Traceback" not in done.stderr


def test_too_little_disk_is_one_sentence_before_anything_is_written(
    call: Call, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storekeeper.ops.machine.ROOM_MB", 10**9)
    done = call(PlatformProcess.in_folder(run_dir), "up")
    assert done.returncode == 1
    assert done.stderr.startswith("storekeeper: Only ")
    assert not run_dir.exists()


@pytest.mark.parametrize("command", ["up", "status", "settings"])
def test_a_configuration_file_that_cannot_be_used_is_one_sentence(call: Call, tmp_path: Path, command: str) -> None:
    (tmp_path / "storekeeper.toml").write_text("kafka_prot = 1\n")
    done = call(PlatformProcess.in_folder(tmp_path / "run"), command)
    assert done.returncode == 78
    assert done.stderr.startswith(
        f"storekeeper: {tmp_path}/storekeeper.toml: there is no setting 'kafka_prot': did you"
    )
    assert done.stderr.count("\n") == 1


def test_a_wrong_setting_is_one_sentence(call: Call, run_dir: Path) -> None:
    done = call(PlatformProcess.in_folder(run_dir, kafka_port="many"), "up")
    assert done.returncode == 78
    assert done.stderr.startswith("storekeeper: The variable STOREKEEPER_KAFKA_PORT can't be used")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "settings", [{"kafka_properties": "/nowhere"}, {"kafka_bootstrap": "127.0.0.1:1", "kafka_properties": "/nowhere"}]
)
def test_a_kafka_that_can_not_be_used_is_one_sentence(call: Call, run_dir: Path, settings: dict[str, str]) -> None:
    done = call(PlatformProcess.in_folder(run_dir, **settings), "up")
    assert done.returncode == 78
    assert done.stderr.startswith("storekeeper: there is no file /nowhere")
    assert done.stderr.count("\n") == 1
    assert not (run_dir / "kafka").exists()


def test_the_platforms_own_broker_takes_properties_of_a_registry_only(
    call: Call, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = tmp_path / "kafka.properties"
    properties.touch(0o600)
    platform = PlatformProcess.in_folder(run_dir, kafka_properties=str(properties))
    properties.write_text("schema.registry.url=http://127.0.0.1:8081\n")
    monkeypatch.setattr("storekeeper.ops.bring_up.check_ports", _reached)
    with pytest.raises(AssertionError, match="behind the check"):
        call(platform, "up")
    properties.write_text("schema.registry.url=http://127.0.0.1:8081\nsecurity.protocol=SSL\n")
    done = call(platform, "up")
    assert done.returncode == 78
    assert f"{properties} has security.protocol, for a Kafka of your own" in done.stderr


def _reached(_: object) -> None:
    raise AssertionError("behind the check")


def test_two_at_once_are_refused(call: Call, run_dir: Path) -> None:
    with exclusive(RunLayout(run_dir).lock, "up"):
        done = call(PlatformProcess.in_folder(run_dir), "up")
    assert done.returncode == 1
    assert "`storekeeper up` (process " in done.stderr


def test_a_second_platform_by_accident_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with exclusive(RunLayout(tmp_path / "other").lock, "up"):
        remember_started(tmp_path / "other")
    check_no_other(OwnPlatformSettings.load())
    monkeypatch.setattr(
        "storekeeper.ops.apply.running_supervisor", lambda layout: layout.root == tmp_path / "other" or None
    )
    with pytest.raises(
        AlreadyRunningError, match=f"{tmp_path}/other is up.*STOREKEEPER_RUN_DIR set to {tmp_path}/.run"
    ):
        check_no_other(OwnPlatformSettings.load())
    check_no_other(OwnPlatformSettings.load(run_dir=tmp_path / ".run"))


def test_down_says_where_nothing_was_running(call: Call, run_dir: Path) -> None:
    run_dir.mkdir()
    for _ in range(2):
        done = call(PlatformProcess.in_folder(run_dir), "down")
        assert (done.returncode, done.stdout) == (0, f"Nothing was running in {run_dir}.\n")


def test_an_app_that_was_removed_is_forgotten(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    layout.heartbeat("x").parent.mkdir()
    for app in ("pos", "pos-next", "page_views", "page_views-next"):
        layout.heartbeat(app).touch()
    forget_removed_apps(layout, ["pos", "ticks"])
    assert {path.stem for path in layout.root.glob("heartbeats/*")} == {"pos", "pos-next"}
