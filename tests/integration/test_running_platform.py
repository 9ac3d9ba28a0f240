"""A platform that runs, as its operators use it: Airflow's API and pages, questions, upgrades, and starting it anew."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from deploy.airflow_client import AirflowClient
from deploy.credentials import AIRFLOW_USER, read_airflow_password
from deploy.down import stop_everything
from deploy.layout import RunLayout
from deploy.orphans import find_orphans
from deploy.waiting import eventually
from spark_apps.generations.journal import JournalFile
from spark_apps.registry import APPS, ON_DEMAND_APPS
from state.client import StateClient
from state.errors import StateError
from tests.integration.airflow_browser import CHROMIUM, airflow_browser
from tests.integration.platform_process import PlatformProcess, supervisor_of
from tests.integration.topics import write_topic
from tests.meanwhile import repeating

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1200)]

_RUN_S = 180
_EVERY_APP = {*APPS}


@dataclass(frozen=True, slots=True)
class Running:
    """A platform with all apps, as its first start left it. `first` is what that said."""

    platform: PlatformProcess
    first: subprocess.CompletedProcess[str]

    @property
    def layout(self) -> RunLayout:
        return RunLayout(self.platform.run_dir)

    @property
    def login(self) -> tuple[str, str]:
        return AIRFLOW_USER, read_airflow_password(self.layout) or ""

    def addresses(self) -> dict[str, str]:
        """Where processes are reached, by name; as `status` tells."""
        return {process["name"]: process["address"] for process in self.platform.status()["processes"]}

    @contextmanager
    def airflow(self) -> Iterator[AirflowClient]:
        with AirflowClient(self.addresses()["airflow-api-server"], *self.login) as client:
            yield client

    def publish_prices(self, symbols: list[str]) -> StateClient:
        """Has the nodes serve a price of each symbol, and returns a client that reads them."""
        addresses = self.addresses()
        write_topic(addresses["kafka"], "ticks", [(symbol.encode(), b"1.5") for symbol in symbols])
        client = StateClient([addresses["node-a"], addresses["node-b"]])
        prices = client.key_value("prices")

        def served() -> bool:
            try:
                return all(prices.get(symbol).value is not None for symbol in symbols)
            except StateError:
                return False

        assert eventually(served, _RUN_S)
        return client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One platform for all tests here; each leaves it healthy, except the last."""
    platform = PlatformProcess.in_folder(tmp_path_factory.mktemp("platform") / "run", start_timeout_s="300")
    first = platform.call("up", "--apps", "all", timeout_s=600)
    yield Running(platform, first)
    stop_everything(RunLayout(platform.run_dir), timeout_s=30)


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots go."""
    kept = request.config.getoption("--pictures")
    return Path(kept) if kept else tmp_path


def test_everything_that_was_started_is_healthy_and_tells_so(running: Running) -> None:
    assert running.first.returncode == 0, running.first.stderr
    assert "password" in running.first.stdout
    status = running.platform.status()
    assert status["healthy"]
    assert all(process["healthy"] for process in status["processes"])
    assert {app for app, fields in status["apps"].items() if fields["healthy"]} == _EVERY_APP
    told = httpx2.get(running.addresses()["metrics"], trust_env=False).text
    assert [app for app in _EVERY_APP if f'spark_app_up{{app="{app}"}} 1.0' not in told] == []


def test_every_folder_finds_the_platform_that_was_started_last(running: Running, tmp_path: Path) -> None:
    environment = dict(running.platform.environment)
    del environment["STOREKEEPER_RUN_DIR"]
    elsewhere = replace(running.platform, environment=environment, run_dir=tmp_path / "none")
    assert elsewhere.status()["run_dir"] == str(running.platform.run_dir)


def test_a_failed_task_can_be_cleared_and_runs_again(running: Running) -> None:
    wrong = {"app": "ticks", "action": "restart"}  # it shares a process
    with running.airflow() as airflow:
        run = airflow.trigger("stream_apps", wrong)
        assert eventually(lambda: airflow.run_state("stream_apps", run) == "failed", _RUN_S)
        airflow.clear("stream_apps", run, "choose")
        assert eventually(lambda: airflow.run_state("stream_apps", run) == "failed", _RUN_S)


def test_airflows_page_of_stores_tells_whoever_has_signed_in_and_nobody_else(running: Running) -> None:
    airflow = running.addresses()["airflow-api-server"]
    glance = f"{airflow}/storekeeper/glance"
    assert httpx2.get(glance, trust_env=False).status_code == 401
    user, password = running.login
    login = httpx2.post(f"{airflow}/auth/token", json={"username": user, "password": password}, trust_env=False).json()
    signed_in = {"Authorization": f"Bearer {login['access_token']}"}

    def all_work() -> bool:
        answer = httpx2.get(glance, headers=signed_in, trust_env=False, timeout=30).json()
        stores = {store["store"]: store for store in answer["stores"]}
        return (
            answer["unreachable"] is None
            and stores["rewards"]["serving"] == stores["rewards"]["replicas"] > 0
            and {app["app"] for app in answer["apps"] if app["healthy"]} == _EVERY_APP
        )

    assert eventually(all_work, _RUN_S, poll_s=1)


def test_what_is_approved_is_done_and_what_is_refused_is_not(running: Running, pictures: Path) -> None:
    symbols = [f"OLD{letter}" for letter in "ABCDEFGHIJ"]
    migration = {"app": "loyalty", "migrations": ["rewards-tier"]}
    cleanup = {"store": "prices", "ttl_days": 1e-6, "canary_wait_minutes": 0}
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        refused, approved = airflow.trigger("migrate_state", migration), airflow.trigger("cleanup_stores", cleanup)
        runs = {"migrate_state": refused, "cleanup_stores": approved}
        assert eventually(lambda: all("approve" in airflow.questions(*run) for run in runs.items()), _RUN_S, poll_s=0.5)
        asked = airflow.questions("cleanup_stores", approved)["approve"]
        assert asked["options"] == ["Approve", "Reject"]
        assert "prices" in asked["subject"]
        assert "10 of 10 rows" in asked["body"], "the question says how many rows would go"
        if CHROMIUM is not None:
            with airflow_browser(running.addresses()["airflow-api-server"], running.login, pictures) as browser:
                browser.see_question("cleanup_stores", approved, "approve", "Approve", "Reject", asked["subject"])
        prices = client.key_value("prices")
        assert all(prices.get(symbol).value is not None for symbol in symbols), "nothing is done before the answer"

        airflow.answer("migrate_state", refused, "approve", "Reject")
        airflow.answer("cleanup_stores", approved, "approve", "Approve")
        for run in runs.items():
            airflow.wait_for_run(*run, _RUN_S)
        done = {task for task, state in airflow.task_states("migrate_state", refused).items() if state == "success"}
        assert done == {"plan", "approve"}
        assert JournalFile(running.platform.run_dir, "loyalty").read() is None, "no generation was made"
        assert airflow.task_states("cleanup_stores", approved)["delete"] == "success"
        assert eventually(lambda: all(prices.get(symbol).value is None for symbol in symbols), _RUN_S)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_a_run_is_started_by_its_form_and_the_stores_are_seen(running: Running, pictures: Path) -> None:
    with (
        airflow_browser(running.addresses()["airflow-api-server"], running.login, pictures) as browser,
        running.airflow() as airflow,
    ):
        browser.trigger_by_form("stream_apps", {"app": "loyalty", "action": "ensure"})
        browser.see_stores("rewards", "loyalty", "prices")
        newest = airflow.newest_run("stream_apps")
        assert newest["conf"] | {"app": "loyalty", "action": "ensure"} == newest["conf"]
        airflow.wait_for_run("stream_apps", newest["dag_run_id"], _RUN_S)
        states = airflow.task_states("stream_apps", newest["dag_run_id"])
    assert {task for task, state in states.items() if state != "skipped"} == {"choose", "loyalty"}


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
def test_an_app_that_shares_a_process_is_changed_by_itself_while_it_is_read(running: Running) -> None:
    symbols = [f"KEPT{letter}" for letter in "ABCDEFGHIJ"]
    change = {"app": "ticks", "partitions": 7, "approval": False, "watch_minutes": 0, "max_behind": 0}
    before = _pids(running.platform.status())
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        reader = Reader(client, symbols)
        with reader.reading():
            run = airflow.trigger("migrate_state", {**change, "afterwards": "retire", "delete": True})
            airflow.wait_for_run("migrate_state", run, 3 * _RUN_S)
        assert reader.failed == []
        tasks = airflow.task_states("migrate_state", run)
    assert {task for task, state in tasks.items() if state != "success"} == {"keep", "roll_back", "snapshot_again"}
    with running.publish_prices([*symbols, "LATER"]):
        status = running.platform.status()
    assert status["healthy"]
    processes = {app: status["apps"][app]["process"] for app in ON_DEMAND_APPS}
    assert processes == {**dict.fromkeys(ON_DEMAND_APPS, "together"), "ticks": "ticks"}
    assert status["apps"]["ticks"]["heartbeat"]["generation"] == 2
    assert _pids(status)["together"] == before["together"], "the others have run on"


def test_nodes_are_upgraded_one_after_the_other_and_reads_have_no_gap(running: Running) -> None:
    symbols = [f"NEW{letter}" for letter in "ABCDEFGHIJ"]
    before = _pids(running.platform.status())
    with running.publish_prices(symbols) as client, running.airflow() as airflow:
        reader = Reader(client, symbols)
        with reader.reading():
            airflow.wait_for_run("upgrade_nodes", airflow.trigger("upgrade_nodes"), _RUN_S)
        assert reader.failed == []
        assert reader.reads > 100
    after = _pids(running.platform.status())
    assert {name for name in before if before[name] != after[name]} == {"node-a", "node-b"}


def test_up_and_down_work_twice_and_heal(running: Running) -> None:
    platform = running.platform
    status = platform.status()
    again = platform.call("up", "--apps", "all")
    assert again.returncode == 0, again.stderr
    assert "password" not in again.stdout, "it is shown once"
    changed = dict(platform.environment) | {"STOREKEEPER_TRIGGER_INTERVAL_MS": "1"}
    refused = PlatformProcess(platform.run_dir, changed).call("up", "--apps", "all")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "runs with other settings (STOREKEEPER_TRIGGER_INTERVAL_MS): set these as they were, or" in refused.stderr
    assert _pids(platform.status()) == _pids(status), "a healthy platform is left alone"

    os.kill(supervisor_of(platform.run_dir).pid(), signal.SIGKILL)
    os.kill(_pids(status)["airflow-scheduler"], signal.SIGKILL)
    os.kill(_pids(status)["together"], signal.SIGKILL)
    assert platform.call("status").returncode == 3
    healed = platform.call("up", "--apps", "all", timeout_s=600)
    assert healed.returncode == 0, healed.stderr
    assert platform.status()["healthy"]

    for _ in range(2):
        down = platform.call("down")
        assert down.returncode == 0, down.stderr
        assert find_orphans(platform.run_dir) == []
    assert platform.call("status").returncode == 3


def _pids(status: dict[str, Any]) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in status["processes"]}
