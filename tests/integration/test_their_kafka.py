"""A whole platform on a Kafka that somebody else has started, which has TLS, logins and ACLs alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.report import DemoReport
from deploy.demo.run import Demo, demo_input
from deploy.demo.screen import Screen
from deploy.environment import Instance
from deploy.layout import RunLayout
from deploy.supervisor import find_orphans, stop_everything
from harness.acls import bindings
from harness.secured_broker import PASSWORD, USER, SecuredBroker
from state.program import ExitCode
from tests.integration.platform_process import PlatformProcess
from tests.integration.running_platform import RUN_S, RunningPlatform

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_secured_kafka.py has an app, a node and a batch job on the same broker"),
]

PURCHASES, POISON = 1500, 24


@pytest.fixture
def platform(secured_broker: SecuredBroker, tmp_path: Path) -> Iterator[PlatformProcess]:
    kafka = secured_broker.with_password(USER)
    assert kafka.properties is not None
    made = PlatformProcess.in_folder(
        tmp_path / "run", apps="all", kafka_bootstrap=kafka.bootstrap, kafka_properties=str(kafka.properties)
    )
    yield made
    stop_everything(RunLayout(made.run_dir))
    secured_broker.forbid_all(f"User:{USER}")


def test_it_computes_what_the_demo_expects_and_migrates(
    platform: PlatformProcess, secured_broker: SecuredBroker
) -> None:
    refused = platform.call("up")
    assert refused.returncode == ExitCode.CONFIGURATION, refused.stderr
    assert f"User:{USER}" in refused.stderr
    assert find_orphans(platform.run_dir) == [], "nothing is half-done"

    printed = platform.call("create-topics", "--dry-run").stdout.splitlines()
    secured_broker.allow(bindings(line for line in printed if line.startswith("kafka-acls")))
    running = RunningPlatform(platform, platform.call("up", timeout_s=1200))
    assert running.first.returncode == 0, running.first.stderr
    assert "kafka" not in running.addresses(), "the broker is not the platform's"

    report = _demo(running, secured_broker)
    assert report.differences == []
    assert (report.verdict, report.quality) == ("green", "published")
    assert report.counts["invoices"] == PURCHASES
    assert report.counts["dead letters"] == POISON

    change = {"app": "pos", "migrations": ["rewards-tier"], "approval": False, "watch_minutes": 0}
    change |= {"afterwards": "retire", "delete": True}
    with running.airflow() as airflow:
        for dag, conf in (("migrate_state", change), ("verify_stores", {"store": "rewards"})):
            airflow.wait_for_run(dag, airflow.trigger(dag, conf), 3 * RUN_S)

    down = platform.call("down")
    assert down.returncode == 0, down.stderr
    assert find_orphans(platform.run_dir) == []
    assert secured_broker.broker.admin().list_topics(timeout=60).topics, "the broker is left alone"
    assert _files_with(PASSWORD, platform.run_dir) == []


def _demo(running: RunningPlatform, broker: SecuredBroker) -> DemoReport:
    """Has an administrator send the input and read the outputs: the platform's user may do neither."""
    settings = running.settings(kafka_properties=str(broker.broker.properties))
    data: Future[Any] = Future()
    data.set_result(demo_input(PURCHASES, POISON))
    report = DemoReport(purchases=0, poison=POISON)
    Demo(Instance.of(settings), report, Screen(), data, rate=100).check()
    return report


def _files_with(secret: str, folder: Path) -> list[Path]:
    """The files below a folder that hold a secret in plain text."""
    found = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return [path for path in found if path.is_file() and secret.encode() in path.read_bytes()]
