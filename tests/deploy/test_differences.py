"""Against a real supervisor, none of whose programs is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.differences import differences
from deploy.down import stop_everything
from deploy.instance import Instance
from deploy.settings import PlatformSettings
from deploy.supervisor import start_supervisor
from harness.ports import free_ports


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Instance]:
    instance = Instance.of(PlatformSettings.load(run_dir=tmp_path / "run", supervisor_port=free_ports(1)[0]))
    instance.layout.make()
    start_supervisor(instance.layout, instance.settings, instance.environment, instance.programs)
    yield instance
    stop_everything(instance.layout, timeout_s=10)


def with_variables(instance: Instance, **variables: str) -> Instance:
    return replace(instance, environment={**instance.environment, **variables})


def test_the_settings_that_it_was_started_with_differ_in_nothing(running: Instance) -> None:
    assert differences(running) == []


def test_variables_of_its_processes_are_named(running: Instance) -> None:
    changed = with_variables(running, STOREKEEPER_TRIGGER_INTERVAL_MS="1", STOREKEEPER_MAX_SCANS="2")
    assert differences(changed) == ["STOREKEEPER_MAX_SCANS", "STOREKEEPER_TRIGGER_INTERVAL_MS"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STOREKEEPER_TRIGGER_INTERVAL_MS", "500"),  # the default
        ("STOREKEEPER_OF_SOMEBODY_ELSE", "1"),
        ("UNRELATED", "1"),
    ],
)
def test_variables_that_change_nothing_are_not(running: Instance, variable: str, value: str) -> None:
    assert differences(with_variables(running, **{variable: value})) == []


def test_programs_are_named_if_no_variable_is(running: Instance) -> None:
    one_node = replace(running, settings=running.settings.model_copy(update={"node_names": ("a",)}))
    assert differences(one_node) == ["node-b"]
    changed = with_variables(one_node, STOREKEEPER_TRIGGER_INTERVAL_MS="1")
    assert differences(changed) == ["STOREKEEPER_TRIGGER_INTERVAL_MS"]


def test_a_configuration_that_is_gone_is_another_one(running: Instance) -> None:
    running.layout.supervisor_conf.unlink()
    assert {"kafka", "pos"} <= set(differences(running))
