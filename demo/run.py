"""The demo: six steps, from an empty run directory to a verdict, and everything stopped again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from demo.airflow_runs import AirflowRuns
from demo.collect import read_export, read_snapshot, read_topic, records_at
from demo.comparison import Observation, compare, compare_dead_letters, points_text
from demo.invoices import Record, invoice_records, load_purchases
from demo.oracle import Expectation, expect
from demo.poison import poison_records, spread
from demo.progress import wait_until_processed
from demo.publish import publish
from demo.report import DemoReport
from demo.screen import Screen
from demo.store_reader import StoreReader, wait_until_served
from demo.systems.part import SystemsPart
from spark_apps.records.topics import HADOOP_SINK, LOYALTY, POS, SHIPMENT
from storekeeper.apps.registry import APPS, stores
from storekeeper.errors import ConfigurationError
from storekeeper.names import dead_letter_topic
from storekeeper.ops.airflow_home import AIRFLOW_USER, read_airflow_password
from storekeeper.ops.environment import inherited_environment
from storekeeper.ops.errors import StartError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import undisturbed
from storekeeper.ops.settings import PlatformSettings
from storekeeper.program import ExitCode, storekeeper_command
from storekeeper.quality.verdict import VerdictArchive
from storekeeper.snapshots.sql import query

TILLS = ("pos", "hadoop_export")
SYSTEMS = {"ticks", "leaderboard", "order_location", "session_tracker", "sales_windows"}
"""The apps of the smaller systems. The demo leaves them out unless all of them run."""
SNAPSHOT_DAG = "snapshot_stores"
QUALITY_DAG = "check_tables"
DAG_PARAMS = {SNAPSHOT_DAG: {"store": "rewards"}, QUALITY_DAG: {"table": "hadoop_export"}}

_PROCESSING_TIMEOUT_S = 600.0
_DAG_TIMEOUT_S = 300.0
_SHOWN_CUSTOMERS = 3
_TOP_TEN = (
    "SELECT CustomerCardNo AS card, TotalLoyaltyPoints AS points, InvoiceCount AS invoices "
    "FROM rewards ORDER BY TotalLoyaltyPoints DESC, CustomerCardNo LIMIT 10"
)


@dataclass(frozen=True, slots=True)
class DemoInput:
    """The demo's input and its expected output."""

    invoices: list[Record]
    poison: list[Record]
    expected: Expectation


def demo_input(purchases: int | None, poison: int) -> DemoInput:
    """The invoices of the first `purchases` purchases (None: all) and `poison` poison records."""
    invoices = invoice_records(load_purchases(purchases))
    bad = poison_records(poison, invoices)
    return DemoInput(invoices, bad, expect(invoices))


def run_demo(run_dir: Path, *, purchases: int | None, poison: int, report_path: Path, rate: int = 0) -> DemoReport:
    """Runs the demo in a run directory of its own, which is emptied first: topics must be empty.

    The platform is started and stopped with the program's commands, as any other. The run directory is left there
    afterwards, to look at its logs. Everything that was started is stopped, however this ends.

    Args:
        run_dir: the run directory.
        purchases: how many purchases are replayed; None: all.
        poison: how many bad records are mixed in.
        report_path: the file of the report.
        rate: how many invoices are published a second, 0 for as many as possible.

    Raises:
        ConfigurationError: the settings name a Kafka that is there already, or a folder that stays.
        PlatformError: a part failed; the report says so too.
    """
    settings = PlatformSettings.load(run_dir=run_dir)
    if not settings.starts_broker:
        msg = f"the demo runs on its own broker only, not on {settings.kafka}: unset kafka_bootstrap for it"
        raise ConfigurationError(msg)
    if settings.durable_uri is not None:
        msg = f"the demo begins with empty folders, and {settings.durable_uri} stays: unset durable_uri for it"
        raise ConfigurationError(msg)
    report, screen = DemoReport(purchases=0, poison=poison), Screen()
    try:
        if run_dir.is_dir():
            _storekeeper(run_dir, "down", "--quiet")
        shutil.rmtree(run_dir, ignore_errors=True)
        # Made while the platform starts, which mostly waits.
        with ThreadPoolExecutor(max_workers=1) as background:
            demo = Demo(settings, report, screen, background.submit(demo_input, purchases, poison), rate)
            demo.start()
            demo.check()
    except BaseException as error:
        report.error = "interrupted" if isinstance(error, SystemExit) else str(error) or type(error).__name__
        raise
    finally:
        with undisturbed(), report.phase("stop"):
            if run_dir.is_dir():
                _storekeeper(run_dir, "down", "--quiet")
        report.write(report_path)
    screen.verdict(report, str(report_path))
    return report


def _storekeeper(run_dir: Path, *arguments: str) -> None:
    """Calls the program in this folder, whose project the platform runs; what it says goes to standard error.

    Raises:
        StartError: it failed.
    """
    environment = inherited_environment() | {"STOREKEEPER_RUN_DIR": str(run_dir)}
    # A signal to this process alone may come in the middle: the command is to undo what it began.
    with subprocess.Popen(storekeeper_command(*arguments), env=environment, stdout=sys.stderr) as process:
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            raise
    if code != ExitCode.DONE:
        msg = f"`storekeeper {' '.join(arguments)}` ended with exit code {code}: see what it said above"
        raise StartError(msg)


class Demo:
    """The steps of a demo. `check` works on every platform whose topics are empty."""

    def __init__(
        self, settings: PlatformSettings, report: DemoReport, screen: Screen, data: Future[DemoInput], rate: int = 0
    ) -> None:
        self._settings = settings
        self._report = report
        self._screen = screen
        self._future_data = data
        self._rate = rate
        self._stores = StoreReader(self._settings.node_urls)
        self._systems = SystemsPart(settings, screen) if APPS.keys() >= SYSTEMS else None

    @property
    def _data(self) -> DemoInput:
        return self._future_data.result()

    def start(self) -> None:
        """Starts the platform.

        Raises:
            PlatformError: a part did not start.
        """
        self._screen.step(1, "starting Kafka, Airflow, the Spark apps and two query nodes")
        with self._report.phase("start"):
            _storekeeper(self._settings.run_dir, "up")

    def check(self) -> None:
        """Sends the input through the platform, and writes the results and differences into the report.

        Raises:
            PlatformError: a part failed.
        """
        self._report.purchases = len(self._data.invoices)
        begun = time.monotonic()
        with closing(self._stores):
            self._publish()
            self._wait()
            self._report.rows_per_second = round(len(self._data.invoices) / (time.monotonic() - begun), 1)
            self._show()
            self._compare()

    def _publish(self) -> None:
        data = self._data
        self._screen.step(2, f"publishing {len(data.invoices)} real purchases as invoices, {len(data.poison)} poison")
        records = spread(data.poison, data.invoices)
        with self._report.phase("publish"), self._screen.publishing(len(records)) as show:
            publish(self._settings.kafka, records, rate=self._rate, on_progress=show)
        if self._systems is not None:
            events = self._systems.publish()
            self._screen.note(f"and {events} generated events: ticks, games, orders on their way, what users do")

    def _wait(self) -> None:
        self._screen.step(3, "waiting until every app and node has processed all of it")
        with self._report.phase("process"):
            with self._screen.processing() as show:
                wait_until_processed(self._settings, _PROCESSING_TIMEOUT_S, show)
            changelogs = [store.changelog_topic for store in stores().values()]
            wait_until_served(self._stores, self._settings.kafka, changelogs, timeout_s=120)

    def _show(self) -> None:
        self._screen.step(4, "asking: totals over HTTP, a snapshot for SQL, the quality gate for the masked export")
        self._show_live_totals()
        if self._systems is not None:
            self._systems.show()
        password = read_airflow_password(RunLayout(self._settings.run_dir)) or ""
        with AirflowRuns(self._settings.airflow_url, AIRFLOW_USER, password) as airflow:
            # At the same time: one is mostly the JVM's work, the other mostly Python's.
            # One store's snapshot is shown; a job for each of the others would only take long.
            runs = {dag: airflow.trigger(dag, params) for dag, params in DAG_PARAMS.items()}
            with self._report.phase("snapshot"):
                airflow.wait_for_run(SNAPSHOT_DAG, runs[SNAPSHOT_DAG], _DAG_TIMEOUT_S)
            top = query(self._settings.tables, _TOP_TEN)
            self._screen.table("Top ten customers (SQL over the snapshot)", [c.name for c in top.columns], top.rows)
            with self._report.phase("quality"):
                airflow.wait_for_run(QUALITY_DAG, runs[QUALITY_DAG], _DAG_TIMEOUT_S)
        self._show_verdict()

    def _show_live_totals(self) -> None:
        rewards = self._data.expected.rewards
        cards = sorted(rewards, key=lambda card: (-rewards[card].invoices, card))[:_SHOWN_CUSTOMERS]
        rows = []
        for card in cards:
            for node in self._settings.node_names:
                reward = self._stores.get(node, card)
                rows.append((node, card, points_text(reward.points) if reward else "none"))
        self._screen.table("Live totals (HTTP)", ("asked node", "card", "points"), rows)

    def _show_verdict(self) -> None:
        verdict = VerdictArchive(self._settings.run_dir / "quality" / "verdicts" / "hadoop_export").last()
        if verdict is None:
            msg = f"The quality gate left no verdict: see {self._settings.airflow_url}/dags/{QUALITY_DAG}."
            raise StartError(msg)
        self._report.quality = str(verdict.status)
        passed = sum(outcome.passed for outcome in verdict.outcomes)
        rows = [("rows", verdict.rows), ("expectations met", f"{passed} of {len(verdict.outcomes)}")]
        rows += [("not met", reason) for reason in verdict.reasons]
        self._screen.table(f"Quality verdict on the masked export: {verdict.status}", ("", ""), rows)

    def _compare(self) -> None:
        self._screen.step(5, "recomputing everything from the input alone, and comparing")
        with self._report.phase("collect"):
            observed = self._collect()
        with self._report.phase("compare"):
            differences = compare(self._data.expected, observed)
            differences += compare_dead_letters(self._data.poison, observed)
        self._count(observed)
        if self._systems is not None:
            with self._report.phase("systems"):
                found, rows = self._systems.compare({(record.key, record.value) for record in self._data.invoices})
            differences += found
            self._report.counts["rows of the other stores"] = rows
        self._report.conclude(differences)
        self._screen.step(6, "stopping everything")

    def _collect(self) -> Observation:
        kafka = self._settings.kafka
        topics = [dead_letter_topic(app) for app in TILLS]
        letters = [record for topic in topics for record in read_topic(kafka, topic)]
        return Observation(
            shipments=read_topic(kafka, SHIPMENT),
            notifications=read_topic(kafka, LOYALTY),
            masked=read_topic(kafka, HADOOP_SINK),
            stores={node: self._stores.all(node) for node in self._settings.node_names},
            snapshot=read_snapshot(self._settings.tables),
            export=read_export(self._settings.tables),
            dead_letters=letters,
            input_at=records_at(read_topic(kafka, POS)) if letters else {},
        )

    def _count(self, observed: Observation) -> None:
        self._report.counts = {
            "invoices": self._data.expected.invoices,
            "shipments": len(observed.shipments),
            "notifications": len(observed.notifications),
            "masked records": len(observed.masked),
            "store entries": sum(map(len, observed.stores.values())),
            "snapshot rows": len(observed.snapshot),
            "published rows": len(observed.export),
            "dead letters": len(observed.dead_letters),
        }
