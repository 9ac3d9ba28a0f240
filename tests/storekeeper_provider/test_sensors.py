from __future__ import annotations

from typing import Any

import pytest

from storekeeper_provider.assets import delta_table, kafka_topic
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.sensors import PlatformHealthySensor

pytestmark = pytest.mark.airflow


def sees_health(*processes: str) -> bool:
    return PlatformHealthySensor(task_id="wait", processes=processes).poke({})


@pytest.mark.usefixtures("connection")
def test_a_platform_that_does_not_run_is_waited_for() -> None:
    assert not sees_health()
    assert not sees_health("pos")


@pytest.mark.parametrize(
    ("named", "healthy"),
    [(["pos"], True), (["pos", "node-a"], False), (["node-a"], False), (["pso"], False), ([], False)],
)
def test_the_named_processes_must_be_healthy(monkeypatch: pytest.MonkeyPatch, named: list[str], healthy: bool) -> None:
    processes = [{"name": "pos", "healthy": True}, {"name": "node-a", "healthy": False}]
    status: dict[str, Any] = {"healthy": False, "processes": processes}
    monkeypatch.setattr(StorekeeperHook, "status", lambda _: status)
    assert sees_health(*named) is healthy


def test_an_asset_has_a_uri_that_names_its_table_or_topic() -> None:
    assert delta_table("rewards").uri == "delta://storekeeper/rewards"
    assert kafka_topic("shipment").uri == "kafka://storekeeper/shipment"
