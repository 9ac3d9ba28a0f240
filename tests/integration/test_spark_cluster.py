"""The platform's processes without containers, as the compose file has them: a standalone master, two workers, and the
supervisor of the stream apps. A worker is killed, with all that it runs, under an app with state, the export and a
snapshot; the first time its disk is lost, too. Nothing is lost or doubled.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from deltalake import DeltaTable

from demo.invoices import Record as Sold
from demo.oracle import MASKED_FIELDS, Expectation, expect
from harness.broker import Broker
from harness.sales import good_sales
from harness.topics import end_offsets, read_topic, write_topic
from harness.waiting import eventually
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.heartbeat import Heartbeat, read_heartbeat
from storekeeper.engine.runtime.scale import AppScale, write_scale
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor_rpc import SupervisorRpc
from tests.standalone_spark import PROGRAMS, end, spark_daemon, start

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("test_scale.py and test_compose.py have the settings of a cluster"),
]

TOPICS = ("pos", "shipment", "loyalty", "hadoop-sink", "pos-dlq", "hadoop_export-dlq", "pos-rewards-changelog")
PATIENCE_S = 600


def free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


@dataclass
class Cluster:
    """The processes, each the leader of a group of its own. `settings` are those of apps and jobs."""

    folder: Path
    bootstrap: str
    master: str
    settings: dict[str, str]
    started: contextlib.ExitStack
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_worker(self, number: int) -> None:
        """Starts a worker on a disk of its own, which it may have left there before."""
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work-{number}"))
        disk = {"STOREKEEPER_EXECUTOR_STATE_DIR": str(self.folder / f"disk-{number}")}
        worker = spark_daemon(self.folder / f"worker-{number}.log", "worker.Worker", self.master, *room, **disk)
        self.started.callback(end, worker)
        self.workers[number] = worker

    def lose_machine(self, number: int) -> set[str]:
        """Ends a worker with all that it runs, and its disk. Returns the tasks whose stores were there."""
        end(self.workers[number])
        kept = self.stores_on(number)
        for disk in (f"disk-{number}", f"work-{number}"):
            shutil.rmtree(self.folder / disk)
        return kept

    def stores_on(self, number: int) -> set[str]:
        """The tasks whose rewards are on a worker's disk."""
        return {path.parent.name for path in self.folder.glob(f"disk-{number}/pos/**/rewards")}

    def await_executors(self) -> None:
        """Returns once every worker runs an executor."""
        eventually(lambda: all(map(executors, self.workers.values())), PATIENCE_S, "both workers run an executor")

    @property
    def supervisor(self) -> SupervisorRpc:
        return eventually(lambda: answering(self.folder / "run"), 60, "the supervisor answers")

    def sold(self) -> Expectation:
        """What must have come out of all that was put into `pos`."""
        return expect(Sold("pos", record.key, record.value) for record in read_topic(self.bootstrap, "pos"))

    def table(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(self.folder / "run" / "delta" / name).to_pyarrow_table().to_pylist()
        return rows

    def answer(self, *arguments: str) -> dict[str, Any]:
        """What a command answers, as Airflow's tasks start it."""
        settings = (f"{name}={value}" for name, value in self.settings.items())
        command = ["env", *settings, sys.executable, "-m", "storekeeper.cli.entry", *arguments, "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
        answer: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
        return answer

    def heartbeat(self, app: str) -> Heartbeat | None:
        return read_heartbeat(RunLayout(self.folder / "run").heartbeat(app))

    def await_beat(self, app: str, reached: Callable[[Heartbeat], bool]) -> Heartbeat:
        def seen() -> Heartbeat | None:
            beat = self.heartbeat(app)
            return beat if beat is not None and reached(beat) else None

        try:
            return eventually(seen, PATIENCE_S, f"a heartbeat of {app}")
        except AssertionError as error:
            error.add_note(self.log(app))
            raise

    def log(self, app: str) -> str:
        path = RunLayout(self.folder / "run").log(app)
        return path.read_text(errors="replace")[-2000:] if path.exists() else "no log"


def answering(run_dir: Path) -> SupervisorRpc | None:
    try:
        client = SupervisorRpc.from_secret(RunLayout(run_dir).supervisor_secret)
    except SupervisorUnreachableError:
        return None
    return client if client.is_up() else None


@pytest.fixture(scope="module")
def cluster(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("spark_cluster")
    for topic in TOPICS:
        broker.create_topic(topic)
    port = free_port()
    settings = {
        "STOREKEEPER_RUN_DIR": str(folder / "run"),
        "STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap,
        "STOREKEEPER_SPARK_MASTER": f"spark://127.0.0.1:{port}",
        "STOREKEEPER_SUPERVISOR_PORT": str(free_port()),
        "STOREKEEPER_CONTROL_PORT": str(free_port()),
        "STOREKEEPER_AIRFLOW": "none",
        "STOREKEEPER_NODE_NAMES": "",
        "STOREKEEPER_SHARED_APPS": "",
        "STOREKEEPER_SPARK": '{"executor.memory": "512m", "cores.max": 2}',
        "STOREKEEPER_TRIGGER_INTERVAL_MS": "100",
        "STOREKEEPER_MAX_OFFSETS_PER_TRIGGER": "50",
    }
    with contextlib.ExitStack() as started:
        master = spark_daemon(folder / "master.log", "master.Master", "--host", "127.0.0.1", "--port", str(port))
        started.callback(end, master)
        cluster = Cluster(folder, broker.bootstrap, settings["STOREKEEPER_SPARK_MASTER"], settings, started)
        for number in range(2):
            cluster.start_worker(number)
        stopped = RunLayout(folder / "run").stopped  # each test starts its app
        stopped.mkdir(parents=True, mode=0o700)
        for app in ("pos", "hadoop_export"):
            (stopped / app).touch()
        supervising = start([str(PROGRAMS / "storekeeper"), "supervise"], folder / "supervise.log", **settings)
        started.callback(stop_supervised, supervising)
        yield cluster


def stop_supervised(supervising: subprocess.Popen[bytes]) -> None:
    """Ends the supervisor with its apps, drivers and their JVMs."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(supervising.pid).children(recursive=True)
        supervising.terminate()
        psutil.wait_procs([psutil.Process(supervising.pid)], 60)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    end(supervising)


def executors(worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The JVMs that a worker runs for apps."""
    return below(worker, "CoarseGrainedExecutorBackend")


def below(worker: subprocess.Popen[bytes], said: str) -> list[psutil.Process]:
    """The processes that a worker has started, by what their command lines say."""
    found = []
    for child in psutil.Process(worker.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may have ended just now
            if said in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_a_machine_is_lost_with_its_disk_and_no_record_is_lost_or_doubled(cluster: Cluster) -> None:
    sales = good_sales(600, seed=11)
    write_topic(cluster.bootstrap, "pos", sales[:300])
    assert cluster.supervisor.start("pos")
    cluster.await_executors()
    beat = cluster.await_beat("pos", lambda beat: (beat.batch_id or 0) >= 1)
    assert cluster.lose_machine(0), "it had stores of its own"
    write_topic(cluster.bootstrap, "pos", sales[300:])
    ends = end_offsets(cluster.bootstrap, "pos")
    after = cluster.await_beat("pos", lambda beat: beat.offsets == ends)
    assert after.pid == beat.pid, "the driver has outlived the worker"
    assert executors(cluster.workers[1])
    shipped = Counter(record.value for record in read_topic(cluster.bootstrap, "shipment"))
    assert shipped == Counter(value for _, value in sales if orjson.loads(value)["DeliveryType"].upper() != "TAKEAWAY")
    bought = Counter(
        invoice["CustomerCardNo"]
        for invoice in (orjson.loads(value) for _, value in sales)
        if invoice["CustomerType"].upper() == "PRIME"
    )
    rows = {record.key: record.value for record in read_topic(cluster.bootstrap, "pos-rewards-changelog")}
    assert {(key or b"").decode(): orjson.loads(value or b"")["InvoiceCount"] for key, value in rows.items()} == bought
    told = Counter(record.key for record in read_topic(cluster.bootstrap, "loyalty"))
    assert told == Counter({card.encode(): count for card, count in bought.items()})
    assert cluster.stores_on(1) == {"0", "1", "2", "3"}, "the worker that is left has the stores of all tasks"
    assert not cluster.stores_on(0)


def test_an_app_that_is_stopped_says_so(cluster: Cluster) -> None:
    assert cluster.supervisor.stop("pos")
    eventually(lambda: not cluster.supervisor.process("pos").is_wanted, PATIENCE_S, "the app has ended")
    beat = cluster.heartbeat("pos")
    assert beat is not None
    assert beat.state == "STOPPED"


def test_the_export_outlives_a_worker_and_holds_every_line_item_once(cluster: Cluster) -> None:
    cluster.start_worker(0)
    scale_file = AppSettings(run_dir=cluster.folder / "run").scale_file("hadoop_export")
    write_scale(scale_file, AppScale(max_offsets_per_trigger=200))
    assert cluster.supervisor.start("hadoop_export")
    cluster.await_executors()
    ends = end_offsets(cluster.bootstrap, "hadoop-sink")
    beat = cluster.await_beat("hadoop_export", lambda beat: (beat.batch_id or 0) >= 1)
    assert beat.offsets != ends, "there is more to export"
    end(cluster.workers[1])
    after = cluster.await_beat("hadoop_export", lambda beat: beat.offsets == ends)
    assert after.pid == beat.pid, "the driver has outlived the worker"
    assert executors(cluster.workers[0])
    rows = cluster.table("hadoop_export_staged")
    assert Counter(tuple(row[name] for name in MASKED_FIELDS) for row in rows) == cluster.sold().masked
    places = {(row["_partition"], row["_offset"]) for row in rows}
    assert places == {(one.partition, one.offset) for one in read_topic(cluster.bootstrap, "hadoop-sink")}
    assert read_topic(cluster.bootstrap, "hadoop_export-dlq") == []
    assert cluster.supervisor.stop("hadoop_export")
    eventually(lambda: not executors(cluster.workers[0]), PATIENCE_S, "the app has given its cores back")


def test_a_snapshot_of_an_app_on_a_cluster_is_the_changelog(cluster: Cluster) -> None:
    taken = cluster.answer("snapshot", "create", "rewards")
    rewards = {card: (reward.points, reward.invoices) for card, reward in cluster.sold().rewards.items()}
    rows = cluster.table("rewards")
    assert {row["CustomerCardNo"]: (row["TotalLoyaltyPoints"], row["InvoiceCount"]) for row in rows} == rewards
    assert (taken["row_count"], len(rows)) == (len(rewards), len(rewards))
    assert taken["source_offsets"] == end_offsets(cluster.bootstrap, "pos")
    details = cluster.answer("verify", "rewards")["details"]
    assert (details["rows"], details["superseded"]) == (len(rewards), 0)
    assert details["compared"][f"snapshot {taken['delta_version']}"] == 4
