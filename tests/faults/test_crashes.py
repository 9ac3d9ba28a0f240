"""All apps under kills, with poison in every topic: nothing is lost, nothing is there twice, in any output."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.app_process import AppProcesses
from harness.broker import start_broker
from harness.crashes.campaign import CONSTANTS, PATIENCE_S, SETTINGS, Campaign

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("engine/test_crashes.py kills tasks at every step, test_running_platform.py kills an app at work"),
]


@pytest.mark.timeout(7200)
def test_apps_that_are_killed_over_and_over_write_everything_once(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, SETTINGS, PATIENCE_S, CONSTANTS)
    campaign = Campaign(apps, broker, minutes=60, seed=1)
    try:
        campaign.run()
        campaign.settle()
        assert [difference for difference in campaign.differences() if not difference.none] == []
    finally:
        campaign.close()
        broker.stop()
    assert campaign.complaints == []
    assert campaign.never_hit == []
