"""Against a real supervisor, none of whose programs is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.ports import free_ports
from harness.project import ROOT
from storekeeper.ops.effective import effective, effective_lines, write_started_with
from storekeeper.ops.environment import Instance, child_environment, inherited_environment
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import start_supervisor, stop_everything

_TELL = """
from storekeeper.ops.settings_reference import ROLES
for _, _, role in ROLES:
    for name, value in role().model_dump(mode="json").items():
        print(f"{name}={value}")
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    run_dir = tmp_path_factory.mktemp("effective") / "run"
    instance = Instance.of(PlatformSettings.load(run_dir=run_dir, supervisor_port=free_ports(1)[0]))
    instance.layout.make()
    write_started_with(instance.layout, effective(instance.settings))
    start_supervisor(instance.layout, instance.settings, instance.environment, instance.programs)
    yield instance
    stop_everything(instance.layout)


@pytest.fixture
def running(platform: Instance) -> Instance:
    """It was started with its settings, whatever another test has written."""
    write_started_with(platform.layout, effective(platform.settings))
    return platform


def found(instance: Instance) -> list[str]:
    """The settings that differ from those of the running platform: name, old value, new value."""
    differing = [line.split() for line in effective_lines(instance.settings) if "running with" in line]
    return sorted(f"{name}: {rest[-1]} -> {value}" for name, value, *rest in differing)


def test_the_settings_that_it_was_started_with_differ_in_nothing(running: Instance) -> None:
    assert found(running) == []


def test_settings_are_named_with_the_old_and_the_new_value(running: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_TRIGGER_INTERVAL_MS", "1")
    monkeypatch.setenv("STOREKEEPER_HISTORY_DAYS", "30")
    monkeypatch.setenv("STOREKEEPER_TOPIC_PARTITIONS", "8")
    changed = replace(running, settings=PlatformSettings.load(run_dir=running.layout.root))
    assert found(changed) == [
        "history_days: 90 -> 30.0",
        f"supervisor_port: {running.settings.supervisor_port} -> 19001",
        "topic_partitions: 4 -> 8",
        "trigger_interval_ms: 500 -> 1",
    ]
    shown = [line.split() for line in effective_lines(changed.settings)]
    assert ["trigger_interval_ms", "1", "environment", "running", "with", "500"] in shown
    assert ["max_scans", "32", "default"] in shown


@pytest.mark.parametrize(
    ("variable", "value"), [("STOREKEEPER_TRIGGER_INTERVAL_MS", "500"), ("STOREKEEPER_OTHER", "1")]
)
def test_variables_that_change_nothing_are_not(
    running: Instance, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert found(running) == []


def test_every_process_of_the_platform_has_its_settings(running: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("MAX_SCANS", "7"),
        ("TRIGGER_INTERVAL_MS", "9"),
        ("PROGRESS_TIMEOUT_S", "500"),
        ("SHARED_APPS", ""),
        ("SPARK", '{"ui.enabled": true}'),
    ):
        monkeypatch.setenv(f"STOREKEEPER_{name}", value)
    write_started_with(running.layout, effective(running.settings))
    environment = child_environment(running.settings, inherited_environment()) | {"PYTHONPATH": str(ROOT)}
    command, folder = [sys.executable, "-c", _TELL], running.layout.root
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (found["max_scans"], found["trigger_interval_ms"], found["progress_timeout_s"]) == ("7", "9", "500.0")
    assert found["spark"] == "{'spark.ui.enabled': 'true'}"
    assert found["run_dir"] == str(running.layout.root)
    assert found["kafka_bootstrap"] == running.settings.kafka_bootstrap
    assert found["supervisor_port"] == str(running.settings.supervisor_port)
    assert "rewards=pos-rewards-changelog" in found["stores"].split(",")
    nodes = ",".join(f"{name}={url}" for name, url in running.settings.node_urls.items())
    assert {line for line in done.stdout.splitlines() if line.startswith("peers=")} == {f"peers={nodes}"}
