"""A platform that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import project
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import find_orphans, stop_everything
from tests.integration.platform_process import PlatformProcess
from tests.integration.running_platform import RunningPlatform


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """One platform with all apps. Each test leaves it healthy. At the end `down` must leave no process.

    It ends with the module: idle, it would take a processor beside the tests after it.
    """
    run_dir = tmp_path_factory.mktemp("platform") / "run"
    platform = PlatformProcess.in_folder(run_dir, shared_apps=project.SYSTEMS)
    try:
        started = RunningPlatform(platform, platform.call("up", timeout_s=1200))
        if started.first.returncode == 0:
            started.pause("check_stores")  # each snapshot would start a JVM for it; test_snapshot_gate.py has the check
        yield started
        down = platform.call("down")
        assert down.returncode == 0, down.stderr
        assert find_orphans(platform.run_dir) == []
        assert platform.call("status").returncode == 4
    finally:
        stop_everything(RunLayout(platform.run_dir))
