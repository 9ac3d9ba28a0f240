"""A platform that runs an app of one's own and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.meanwhile import repeating
from harness.topics import write_topic
from storekeeper.changelog.partitioner import partition_for
from storekeeper.client.client import StateClient
from storekeeper.engine.runtime.topics import Topics
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.supervisor import stop_everything
from storekeeper.ops.waiting import eventually
from tests.erasure.found import files_with, topics_with
from tests.integration.platform_process import PlatformProcess
from tests.integration.running_platform import RunningPlatform
from tests.watched_airflow import WatchedAirflow

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1800)),
    pytest.mark.long("test_named_apps.py and test_apps_of_a_platform.py have it in parts"),
]

_OWN, _STORE, _RUN_S = "page_views", "page_views_totals", 180
_EVENTS, _CHANGELOG = f"{_OWN}-events", f"{_OWN}-{_STORE}-changelog"
_ALICE, _OTHERS = "alice-4836051607", [f"other-{number:02}" for number in range(20)]
_QUICKLY = {"min.compaction.lag.ms": "0", "delete.retention.ms": "8000"}
_ERASED_S = 900


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with one app, whose records go through a shuffle."""
    folder = tmp_path_factory.mktemp("own")
    make_project(_OWN, folder)
    module = folder / "spark_apps" / f"{_OWN}.py"
    module.write_text(module.read_text().replace("events.group", "events.select_key(lambda key, _: key).group"))
    named = {"apps": f"spark_apps.{_OWN}:{_OWN.upper()}", "project_dir": str(folder)}
    platform = PlatformProcess.in_folder(folder / "run", **named)
    try:
        begun = platform.call("up", timeout_s=1000)
        assert begun.returncode == 0, begun.stderr
        yield RunningPlatform(platform, begun)
    finally:
        stop_everything(RunLayout(platform.run_dir))


@pytest.fixture
def client(own: RunningPlatform) -> Iterator[StateClient]:
    """A client of its nodes."""
    addresses = own.addresses()
    with StateClient([addresses["node-a"], addresses["node-b"]]) as made:
        yield made


def test_an_app_of_ones_own_is_run_and_looked_after_as_the_platforms(own: RunningPlatform, client: StateClient) -> None:
    platform, status, totals = own.platform, own.platform.status(), client.key_value(_STORE)
    assert (status["healthy"], list(status["apps"])) == (True, [_OWN])

    def add(amount: int, total: int) -> bool:
        _write(own, ["a"], amount)
        return eventually(lambda: (totals.get("a").value or {}).get("Total") == total, _RUN_S)

    with own.airflow() as airflow:
        assert add(5, total=5)
        before = _pids(platform)
        airflow.wait_for_run("stream_apps", airflow.trigger("stream_apps", {"app": _OWN, "action": "restart"}), _RUN_S)
        assert add(7, total=12)
        after = _pids(platform)
        assert {name for name in before if before[name] != after[name]} == {_OWN}
        airflow.unpause("daily_proof")
        airflow.wait_for_run("daily_proof", airflow.trigger("daily_proof"), _RUN_S)
        _snapshot(airflow)
    wanted = f"""SELECT "Events", "Total" FROM {_STORE} WHERE "Key" = 'a'"""  # noqa: S608 (our own)
    rows = platform.call("sql", "--output", "json", wanted)
    assert [json.loads(rows.stdout)] == [{"Events": 2, "Total": 12}]


@dataclass
class Traffic:
    """Events of the other keys, while a key is erased."""

    own: RunningPlatform
    rounds: int = 0

    def write(self) -> None:
        _write(self.own, _OTHERS, 2)
        self.rounds += 1

    @property
    def totals(self) -> dict[str, Any]:
        """What the store must hold of them."""
        return {key: {"Key": key, "Events": self.rounds, "Total": 2 * self.rounds} for key in _OTHERS}


def test_a_key_is_erased_by_its_dag_while_the_app_goes_on(own: RunningPlatform, client: StateClient) -> None:
    """It comes last: only a platform that is down has all of its files open to be read."""
    platform, kafka, run_dir = own.platform, Kafka(own.addresses()["kafka"]), own.platform.run_dir
    totals, traffic = client.key_value(_STORE), Traffic(own)
    Topics(kafka).configure(_CHANGELOG, _QUICKLY)
    for _ in range(3):
        _write(own, [_ALICE], 5)
        traffic.write()

    def served() -> bool:
        return {key: totals.get(key).value for key in _OTHERS} == traffic.totals

    assert eventually(lambda: (totals.get(_ALICE).value or {}).get("Events") == 3 and served(), _RUN_S)
    with own.airflow() as airflow:
        _snapshot(airflow)
        pids, stores = _pids(platform), _identities(run_dir)
        assert [*topics_with(_ALICE, kafka, [_CHANGELOG])]
        found = {path.partition("/")[0] for path in files_with(_ALICE, run_dir / "delta")}
        assert found == {_STORE, f"{_STORE}_history"}
        plan = platform.call("erase", _STORE, _ALICE, "--output", "json")
        assert plan.returncode == 0, plan.stderr
        erasure = json.loads(plan.stdout)["erasure_id"]
        with repeating(traffic.write, 0.3):
            _erase(airflow, erasure, lambda: totals.get(_ALICE).value is not None)
    certificate = json.loads((run_dir / "erasures" / _STORE / erasure / "certificate.json").read_text())
    assert (certificate["yours"], certificate["found_elsewhere"]) == ([_EVENTS], [])
    assert eventually(served, _RUN_S), "the other keys are exact"
    asked = httpx2.get(f"{own.addresses()['node-a']}/state/keyvalue/{_STORE}/{_ALICE}", trust_env=False, timeout=30)
    assert (asked.status_code, asked.json()["type"]) == (404, "urn:storekeeper:problem:unknown-key")
    assert _pids(platform) == pids, "nothing was started anew"
    verified = platform.call("verify", _STORE)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    others = [topic for topic in Topics(kafka).names() if not topic.startswith("__") and topic != _EVENTS]
    assert _CHANGELOG in others
    assert [*topics_with(_ALICE, kafka, others)] == []
    assert eventually(lambda: not [*(run_dir / "spark").rglob("shuffle_*")], _RUN_S), "records stay on the disk"
    assert platform.call("down").returncode == 0
    # What its certificate excepts: the source, and segments that the broker has yet to delete.
    excepted = re.compile(rf"kafka/data/{_EVENTS}-\d+/|kafka/data/.*\.deleted$")
    assert [path for path in files_with(_ALICE, run_dir) if not excepted.match(path)] == []
    partition = str(partition_for(_ALICE.encode(), len(certificate["changelog"]["read_without_them"])))
    now, its_own = _identities(run_dir), {store for store in stores if store[1] == partition}
    assert {kind for kind, *_ in its_own} == {"state", "tasks"}
    assert {store for store in its_own if now[store] == stores[store]} == set(), "their files are new ones"


def _erase(airflow: WatchedAirflow, erasure: str, is_there: Callable[[], bool]) -> None:
    """Runs the DAG as an operator does who has looked at the question, and doesn't wait for its hourly tries."""
    run = airflow.trigger("erase_keys", {"store": _STORE, "erasure_id": erasure})
    assert eventually(lambda: "approve" in airflow.questions("erase_keys", run), _RUN_S, poll_s=0.5)
    asked = airflow.questions("erase_keys", run)["approve"]
    assert f"store **{_STORE}**" in asked["body"]
    assert _ALICE not in json.dumps(asked)
    assert is_there(), "nothing is done before the answer"
    airflow.answer("erase_keys", run, "approve", "Approve")

    def hasten(_state: str) -> None:
        if airflow.task_states("erase_keys", run).get("erase") == "up_for_retry":
            airflow.clear("erase_keys", run, "erase")

    airflow.wait_for_run("erase_keys", run, _ERASED_S, hasten)


def _identities(run_dir: Path) -> dict[tuple[str, str, str], str]:
    """What RocksDB calls the files of each store of nodes and tasks, by kind, partition and folder."""
    found = {}
    for file in (*run_dir.glob("state/**/IDENTITY"), *run_dir.glob("tasks/**/IDENTITY")):
        kind, *_, above, folder = (parts := file.relative_to(run_dir).parent.parts)
        found[kind, folder if folder.isdigit() else above, str(Path(*parts))] = file.read_text()
    return found


def _write(own: RunningPlatform, keys: Iterable[str], amount: int) -> None:
    event = b'{"Amount": %d}' % amount
    write_topic(own.addresses()["kafka"], _EVENTS, [(key.encode(), event) for key in keys])


def _snapshot(airflow: WatchedAirflow) -> None:
    airflow.wait_for_run("snapshot_stores", airflow.trigger("snapshot_stores", {"store": _STORE}), _RUN_S)


def _pids(platform: PlatformProcess) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in platform.status()["processes"]}
