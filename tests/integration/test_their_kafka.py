"""A whole platform on a Kafka that somebody else has started, which has TLS, logins and ACLs alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest

from demo.report import DemoReport
from demo.run import Demo, demo_input
from demo.screen import Screen
from harness import project
from harness.acls import bindings, with_prefix
from harness.secured_broker import PASSWORD, USER, SecuredBroker
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.client.client import StateClient
from storekeeper.kafka.clients import new_producer
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.supervisor import find_orphans, stop_everything
from storekeeper.ops.waiting import eventually
from storekeeper.program import ExitCode
from tests.integration.platform_process import PlatformProcess
from tests.integration.running_platform import RUN_S, RunningPlatform

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_secured_kafka.py has an app, a node and a batch job on the same broker"),
]

PURCHASES, POISON = 1500, 24
VIEWS = "views-team.page_views"
STORE = "page_views_totals"


@pytest.fixture
def platform(secured_broker: SecuredBroker, tmp_path: Path) -> Iterator[PlatformProcess]:
    kafka = secured_broker.with_password(USER)
    assert kafka.properties is not None
    made = PlatformProcess.in_folder(
        tmp_path / "run",
        shared_apps=project.SYSTEMS,
        kafka_bootstrap=kafka.bootstrap,
        kafka_properties=str(kafka.properties),
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


def test_a_team_whose_names_have_one_prefix_has_a_platform_of_its_own(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    kafka, user = secured_broker.with_certificate("views-team"), "User:CN=views-team"
    secured_broker.broker.create_topic("views")
    others = secured_broker.broker.admin().list_topics(timeout=60).topics.keys()
    secured_broker.allow(with_prefix(user, "views-team.", ["views"]))
    make_project(VIEWS, tmp_path)
    app = tmp_path / "spark_apps" / "page_views.py"
    app.write_text(app.read_text().replace(f'"{VIEWS}-events"', '"views"'))
    platform = PlatformProcess.in_folder(
        tmp_path / "run",
        apps="spark_apps.page_views:PAGE_VIEWS",
        project_dir=str(tmp_path),
        cluster="views-team.query",
        kafka_bootstrap=kafka.bootstrap,
        kafka_properties=str(kafka.properties),
    )
    try:
        running = RunningPlatform(platform, platform.call("up", timeout_s=1200))
        assert running.first.returncode == 0, running.first.stderr
        _operate(running, secured_broker)
        known = secured_broker.broker.admin().list_topics(timeout=60).topics
        assert {f"{VIEWS}-dlq", f"{VIEWS}-page_views_totals-changelog-g2", "views-team.query-aliases"} < known.keys()
        made = [name for name in known.keys() - others if not name.startswith("__")]  # those are the broker's own
        assert [name for name in made if not name.startswith("views-team.")] == []
        down = platform.call("down")
        assert down.returncode == 0, down.stderr
    finally:
        stop_everything(RunLayout(platform.run_dir))
        secured_broker.forbid_all(user)


def _operate(running: RunningPlatform, broker: SecuredBroker) -> None:
    """Uses an app, whose name has a dot, in all ways: nodes, Airflow, SQL, a migration, a clean-up."""
    call = running.platform.call
    status = running.platform.status()
    assert (status["healthy"], list(status["apps"])) == (True, [VIEWS])
    addresses, producer = running.addresses(), new_producer(broker.broker.kafka, {"partitioner": "murmur2_random"})
    with StateClient([addresses["node-a"], addresses["node-b"]]) as client, running.airflow() as airflow:
        totals = client.key_value(STORE)

        def total() -> int | None:
            return (totals.get("a").value or {}).get("Total")

        def run(dag: str, **params: object) -> None:
            airflow.wait_for_run(dag, airflow.trigger(dag, params), 2 * RUN_S)

        for value in (b'{"Amount": 5}', b"nonsense"):
            producer.produce("views", value, b"a")
        assert producer.flush(60) == 0
        assert eventually(lambda: total() == 5, RUN_S)
        assert eventually(lambda: len(list(read_topic(broker.broker.kafka, f"{VIEWS}-dlq"))) == 1, RUN_S)
        run("stream_apps", app=VIEWS, action="restart")
        run("migrate_state", app=VIEWS, copy=True, approval=False, watch_minutes=0, afterwards="retire", delete=True)
        run("verify_stores", store=STORE)
        rows = call("sql", "--output", "json", f'SELECT "Events", "Total" FROM {STORE}')  # noqa: S608 (our own)
        assert [json.loads(rows.stdout)] == [{"Events": 1, "Total": 5}]
        metrics = httpx2.get(f"{addresses['control']}/metrics", trust_env=False).text
        assert f'app="{VIEWS}"' in metrics
        assert json.loads(call("generation", "status", VIEWS, "--output", "json").stdout)["live"] == 2
        plan = json.loads(call("cleanup", "preview", STORE, "--ttl-days", "0.00001", "--output", "json").stdout)
        done = call("cleanup", "run", STORE, plan["cleanup_id"], "--output", "json")
        assert json.loads(done.stdout)["deleted"] == 1, done.stderr
        assert eventually(lambda: total() is None, RUN_S)


def _demo(running: RunningPlatform, broker: SecuredBroker) -> DemoReport:
    """Has an administrator send the input and read the outputs: the platform's user may do neither."""
    settings = running.settings(kafka_properties=str(broker.broker.properties))
    data: Future[Any] = Future()
    data.set_result(demo_input(PURCHASES, POISON))
    report = DemoReport(purchases=0, poison=POISON)
    Demo(settings, report, Screen(), data, rate=100).check()
    return report


def _files_with(secret: str, folder: Path) -> list[Path]:
    """The files below a folder that hold a secret in plain text."""
    found = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return [path for path in found if path.is_file() and secret.encode() in path.read_bytes()]
