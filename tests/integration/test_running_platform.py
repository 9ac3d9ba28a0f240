"""A platform that runs, as its operators use it: data, Airflow's API and pages, questions, upgrades, kills."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from demo.report import DemoReport
from demo.run import Demo, demo_input
from demo.screen import Screen
from harness.meanwhile import repeating
from harness.meanwhile import running as meanwhile
from harness.project_apps import SYSTEM_APPS
from harness.topics import write_topic
from storekeeper.apps.registry import APPS
from storekeeper.client.client import StateClient
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.errors import StateError
from storekeeper.generations.journal import JournalFile
from storekeeper.ops.errors import StartError
from storekeeper.ops.programs import Kind, kind_of
from storekeeper.ops.waiting import eventually
from tests.integration.airflow_browser import CHROMIUM, airflow_browser
from tests.integration.platform_process import PlatformProcess
from tests.integration.running_platform import RUN_S, RunningPlatform
from tests.ops.observability.scraped import NODES, PLATFORM, Scrape, documented, uses_of
from tests.readable import open_to_others
from tests.watched_airflow import WatchedAirflow

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1800)]

PURCHASES, POISON = 400, 12
_EVERY_APP = {*APPS}


def test_everything_that_was_started_is_healthy_and_tells_so(running: RunningPlatform) -> None:
    assert running.first.returncode == 0, running.first.stderr
    assert "password" in running.first.stdout

    def all_work() -> bool:
        status = running.platform.status()
        told = httpx2.get(f"{running.addresses()['control']}/metrics", trust_env=False).text
        return (
            status["healthy"]
            and all(process["healthy"] for process in status["processes"])
            and {app for app, fields in status["apps"].items() if fields["healthy"]} == _EVERY_APP
            and all(f'spark_app_up{{app="{app}"}} 1.0' in told for app in _EVERY_APP)
        )

    # On a busy machine one of them may answer its probe too late now and then.
    assert eventually(all_work, RUN_S, poll_s=1)


def test_every_folder_finds_the_platform_that_was_started_last(running: RunningPlatform, tmp_path: Path) -> None:
    environment = dict(running.platform.environment)
    del environment["STOREKEEPER_RUN_DIR"]
    elsewhere = replace(running.platform, environment=environment, run_dir=tmp_path / "none")
    assert elsewhere.status()["run_dir"] == str(running.platform.run_dir)


def test_every_purchase_reaches_every_output_although_an_app_is_killed(running: RunningPlatform) -> None:
    data: Future[Any] = Future()
    data.set_result(demo_input(PURCHASES, POISON))
    report, stop = DemoReport(purchases=0, poison=POISON), threading.Event()
    killed: list[int] = []

    def beat() -> Heartbeat | None:
        return read_heartbeat(running.layout.heartbeat("pos"))

    def kill_at_work() -> None:
        while not stop.wait(0.05):
            found = beat()
            if found is not None and found.input_rows_total > 0:
                os.kill(found.pid, signal.SIGKILL)
                killed.append(found.pid)
                return

    # Slow enough for the kill to come while records still do.
    with meanwhile(kill_at_work, stop):
        Demo(running.settings(), report, Screen(), data, rate=100).check()
    assert report.differences == []
    assert (report.verdict, report.quality) == ("green", "published")
    assert report.counts["invoices"] == PURCHASES
    assert report.counts["dead letters"] == POISON
    assert report.counts["rows of the other stores"] > 500
    assert len(killed) == 1

    def is_back() -> bool:
        found = beat()
        return found is not None and found.pid not in killed and found.state is AppState.RUNNING

    assert eventually(is_back, RUN_S)
    (pos,) = [process for process in running.platform.status()["processes"] if process["name"] == "pos"]
    assert (pos["exits"], pos["last_exit"]) == (1, "terminated by SIGKILL"), "a kill leaves a trace"
    with running.airflow() as airflow:
        assert eventually(lambda: _has_run(airflow, "verify_stores"), RUN_S, poll_s=0.5), "the snapshot starts it"
        airflow.wait_for_run("verify_stores", airflow.newest_run("verify_stores")["dag_run_id"], RUN_S)


def _has_run(airflow: WatchedAirflow, dag: str) -> bool:
    with suppress(IndexError):
        return bool(airflow.newest_run(dag))
    return False


def test_a_failed_task_can_be_cleared_and_runs_again(running: RunningPlatform) -> None:
    wrong = {"app": "all", "action": "scale", "cores": 2}  # scaling is for one app
    with running.airflow() as airflow:
        run = airflow.trigger("stream_apps", wrong)
        with pytest.raises(StartError, match=r"(?s)task choose.*`scale` is for one app"):
            airflow.wait_for_run("stream_apps", run, RUN_S)
        airflow.clear("stream_apps", run, "choose")
        assert eventually(lambda: airflow.run_state("stream_apps", run) == "failed", RUN_S, poll_s=0.5)


def test_airflows_page_of_stores_tells_whoever_has_signed_in_and_nobody_else(running: RunningPlatform) -> None:
    airflow = running.addresses()["airflow-api-server"]
    glance = f"{airflow}/storekeeper/glance"
    assert httpx2.get(glance, trust_env=False, timeout=30).status_code == 401
    user, password = running.login
    asked = {"username": user, "password": password}
    login = httpx2.post(f"{airflow}/auth/token", json=asked, trust_env=False, timeout=30).json()
    signed_in = {"Authorization": f"Bearer {login['access_token']}"}

    def all_work() -> bool:
        answer = httpx2.get(glance, headers=signed_in, trust_env=False, timeout=30).json()
        stores = {store["store"]: store for store in answer["stores"]}
        return (
            answer["unreachable"] is None
            and stores["rewards"]["serving"] == stores["rewards"]["replicas"] > 0
            and {app["app"] for app in answer["apps"] if app["healthy"]} == _EVERY_APP
        )

    assert eventually(all_work, RUN_S, poll_s=1)


def test_what_is_approved_is_done_and_what_is_refused_is_not(running: RunningPlatform, pictures: Path) -> None:
    symbols = [f"OLD{letter}" for letter in "ABCDEFGHIJ"]
    migration = {"app": "pos", "migrations": ["rewards-tier"]}
    cleanup = {"store": "prices", "ttl_days": 1e-6, "canary_wait_minutes": 0}
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        refused, approved = airflow.trigger("migrate_state", migration), airflow.trigger("cleanup_stores", cleanup)
        runs = {"migrate_state": refused, "cleanup_stores": approved}
        assert eventually(lambda: all("approve" in airflow.questions(*run) for run in runs.items()), RUN_S, poll_s=0.5)
        asked = airflow.questions("cleanup_stores", approved)["approve"]
        assert asked["options"] == ["Approve", "Reject"]
        assert "prices" in asked["subject"]
        assert re.search(r"(\d{2,}) of \1 rows", asked["body"]), "the question says how many rows would go"
        if CHROMIUM is not None:
            with airflow_browser(running.addresses()["airflow-api-server"], running.login, pictures) as browser:
                browser.see_question("cleanup_stores", approved, "approve", "Approve", "Reject", asked["subject"])
        prices = client.key_value("prices")
        assert all(prices.get(symbol).value is not None for symbol in symbols), "nothing is done before the answer"

        airflow.answer("migrate_state", refused, "approve", "Reject")
        airflow.answer("cleanup_stores", approved, "approve", "Approve")
        for run in runs.items():
            airflow.wait_for_run(*run, RUN_S)
        done = {task for task, state in airflow.task_states("migrate_state", refused).items() if state == "success"}
        assert done == {"plan", "approve"}
        assert JournalFile(running.platform.run_dir, "pos").read() is None, "no generation was made"
        assert airflow.task_states("cleanup_stores", approved)["delete"] == "success"
        assert eventually(lambda: all(prices.get(symbol).value is None for symbol in symbols), RUN_S)


def test_nobody_else_can_look_into_the_run_directory(running: RunningPlatform) -> None:
    assert open_to_others(running.platform.run_dir) == set()


def test_dashboards_rules_and_documents_name_what_is_exported(running: RunningPlatform) -> None:
    """The purchases above have left a snapshot and a verdict of the quality gate; what else there is is made here."""
    addresses, now_ms = running.addresses(), SystemClock().now_ms()
    event = {"EventID": "e", "UserID": "u", "EventTime": now_ms}
    write_topic(addresses["kafka"], "user-events", [(b"u", json.dumps(event).encode())])
    rows, seen = documented(NODES) + documented(PLATFORM), [{"nothing": "was scraped"}]

    def all_there() -> bool:
        places = (f"{addresses['control']}/metrics", f"{addresses['node-a']}/metrics", f"{addresses['node-b']}/metrics")
        scrape = Scrape(*(httpx2.get(place, trust_env=False, timeout=30).text for place in places))
        seen[0] = {**scrape.unlike(rows), **scrape.unmet(uses_of(rows))}
        seen[0] |= dict.fromkeys(scrape.undocumented(rows), "is not documented")
        return not seen[0]

    assert eventually(all_there, RUN_S, poll_s=1), seen[0]


@pytest.mark.long("test_running_platform.py starts runs by the API, and sees a question in the browser")
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_a_run_is_started_by_its_form_and_the_stores_are_seen(running: RunningPlatform, pictures: Path) -> None:
    with (
        airflow_browser(running.addresses()["airflow-api-server"], running.login, pictures) as browser,
        running.airflow() as airflow,
    ):
        browser.trigger_by_form("stream_apps", {"app": "pos", "action": "start"})
        browser.see_stores("rewards", "pos", "prices")
        newest = airflow.newest_run("stream_apps")
        assert newest["conf"] | {"app": "pos", "action": "start"} == newest["conf"]
        airflow.wait_for_run("stream_apps", newest["dag_run_id"], RUN_S)
        states = airflow.task_states("stream_apps", newest["dag_run_id"])
    assert {task for task, state in states.items() if state != "skipped"} == {"choose", "pos"}


@dataclass(slots=True)
class Reader:
    """Reads over and over while the block runs."""

    client: StateClient
    symbols: list[str]
    reads: int = 0
    failed: list[str] = field(default_factory=list)

    def reading(self) -> AbstractContextManager[None]:
        """A hundred reads a second at most."""
        prices = self.client.key_value("prices")

        def read() -> None:
            symbol = self.symbols[self.reads % len(self.symbols)]
            self.reads += 1
            try:
                if prices.get(symbol).value is None:
                    self.failed.append(f"{symbol} is gone")
            except StateError as error:
                self.failed.append(str(error))

        return repeating(read, 0.01)


@pytest.mark.long("test_migrate_state.py has it on toys, test_generations.py step by step")
def test_an_app_that_shares_a_driver_is_changed_while_it_is_read(running: RunningPlatform) -> None:
    symbols = [f"KEPT{letter}" for letter in "ABCDEFGHIJ"]
    change = {"app": "ticks", "copy": True, "approval": False, "watch_minutes": 0, "max_behind": 0}
    before = _pids(running.platform.status())
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        reader = Reader(client, symbols)
        with reader.reading():
            run = airflow.trigger("migrate_state", {**change, "afterwards": "retire", "delete": True})
            airflow.wait_for_run("migrate_state", run, 3 * RUN_S)
        assert reader.failed == []
        tasks = airflow.task_states("migrate_state", run)
    assert {task for task, state in tasks.items() if state != "success"} == {"keep", "roll_back", "snapshot_again"}
    with running.publish_prices([*symbols, "LATER"]):
        status = running.platform.status()
    assert status["healthy"]
    processes = {app: status["apps"][app]["process"] for app in SYSTEM_APPS}
    assert processes == dict.fromkeys(SYSTEM_APPS, "shared_driver")
    assert status["apps"]["ticks"]["heartbeat"]["generation"] == 2
    assert _pids(status)["shared_driver"] == before["shared_driver"], "the driver has run on"


@pytest.mark.long("test_node_roll.py has the order, the refusals and the waiting")
def test_nodes_are_upgraded_one_after_the_other_and_reads_have_no_gap(running: RunningPlatform) -> None:
    symbols = [f"NEW{letter}" for letter in "ABCDEFGHIJ"]
    before = _pids(running.platform.status())
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        reader = Reader(client, symbols)
        with reader.reading():
            airflow.wait_for_run("upgrade_nodes", airflow.trigger("upgrade_nodes"), RUN_S)
        assert reader.failed == []
        assert reader.reads > 100
    after = _pids(running.platform.status())
    assert {name for name in before if before[name] != after[name]} == {"node-a", "node-b"}


def test_up_continues_what_a_signal_has_stopped(running: RunningPlatform) -> None:
    platform = running.platform
    before = _pids(platform.status())
    stopped = ("kafka", "node-a")
    for name in stopped:
        os.kill(before[name], signal.SIGSTOP)
    try:
        details = {process["name"]: process["detail"] for process in platform.status()["processes"]}
        assert {details[name] for name in stopped} == {"frozen: its process was stopped by a signal"}
        healed = platform.call("up", timeout_s=1200)
    finally:
        for name in stopped:
            os.kill(before[name], signal.SIGCONT)
    assert healed.returncode == 0, healed.stderr
    assert all(f"continued {name}, which a signal had stopped" in healed.stderr for name in stopped)
    assert _pids(platform.status()) == before, "nothing was started anew"
    with running.publish_prices(["AFTER"]):
        assert platform.status()["healthy"]


def test_up_leaves_a_healthy_platform_alone_and_takes_over_other_settings(running: RunningPlatform) -> None:
    platform = running.platform
    status = platform.status()
    again = platform.call("up")
    assert again.returncode == 0, again.stderr
    assert "password" not in again.stdout, "it is shown once"
    assert _pids(platform.status()) == _pids(status), "a healthy platform is left alone"
    port = dict(platform.environment) | {"STOREKEEPER_KAFKA_PORT": "1", "STOREKEEPER_TRIGGER_INTERVAL_MS": "1"}
    refused = PlatformProcess(platform.run_dir, port).call("apply")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "kafka_port can't be done" in refused.stderr
    assert _pids(platform.status()) == _pids(status), "nothing was changed"
    changed = dict(platform.environment) | {"STOREKEEPER_TRIGGER_INTERVAL_MS": "1"}
    applied = PlatformProcess(platform.run_dir, changed).call("apply", timeout_s=1200)
    assert applied.returncode == 0, applied.stderr
    before, after = _pids(status), _pids(platform.status())
    apps = {name for name in before if kind_of(name) is Kind.APP and before[name] is not None}
    assert {name for name in before if before[name] != after[name]} == apps


def _pids(status: dict[str, Any]) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in status["processes"]}
