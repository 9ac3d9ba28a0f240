"""A client within the network of the compose file: `python -m tests.containers.compose_loop COMMAND`.

publish FIRST LAST    publishes the purchases from FIRST to LAST
check LAST            writes the differences of all outputs from what the purchases up to LAST give, as JSON: topics,
                      what each node answers, a snapshot by Airflow's DAG, and the export behind the quality gate
ask                   asks two nodes for cards until TERM, then writes how many answers there were, and all failures
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
from pathlib import Path

import httpx2

from demo.airflow_runs import AirflowRuns
from demo.collect import read_export, read_snapshot, read_topic
from demo.comparison import Observation, compare
from demo.invoices import invoice_records, load_purchases
from demo.oracle import expect
from demo.progress import wait_until_processed
from demo.publish import publish
from demo.run import DAG_PARAMS
from demo.store_reader import StoreReader, wait_until_served
from spark_apps.records.topics import HADOOP_SINK, LOYALTY, SHIPMENT
from storekeeper.apps.registry import stores
from storekeeper.client.client import StateClient
from storekeeper.client.credentials import Credentials
from storekeeper.errors import StateError
from storekeeper.ops.airflow_home import AIRFLOW_USER
from storekeeper.ops.settings import PlatformSettings

PATIENCE_S = 1200.0
NODES = {name: f"https://node-{name}:18101" for name in "abc"}
CREDENTIALS = Credentials(token_file=Path("/run/secrets/reader_token"), ca_file=Path("/run/secrets/ca"))
AIRFLOW = "http://airflow-api-server:8080"


def publish_purchases(first: int, last: int) -> None:
    """Publishes the purchases from `first` to `last`."""
    publish(PlatformSettings.load().kafka, invoice_records(load_purchases(last)[first:]))


def check(last: int) -> None:
    """Checks what came of all purchases up to `last`."""
    settings = PlatformSettings.load()
    wait_until_processed(settings, PATIENCE_S, lambda _: None)
    http = httpx2.Client(timeout=30, trust_env=False, verify=CREDENTIALS.ssl_context(), headers=CREDENTIALS.headers())
    reader = StoreReader(NODES, http)
    wait_until_served(reader, settings.kafka, [store.changelog_topic for store in stores().values()], PATIENCE_S)
    run_dags(settings)
    observed = Observation(
        shipments=read_topic(settings.kafka, SHIPMENT),
        notifications=read_topic(settings.kafka, LOYALTY),
        masked=read_topic(settings.kafka, HADOOP_SINK),
        stores={node: reader.all(node) for node in NODES},
        snapshot=read_snapshot(settings.tables),
        export=read_export(settings.tables),
    )
    counts = {"shipments": len(observed.shipments), "snapshot": len(observed.snapshot), "export": len(observed.export)}
    differences = compare(expect(invoice_records(load_purchases(last))), observed)
    print(json.dumps({"differences": list(map(str, differences)), **counts}))


def run_dags(settings: PlatformSettings) -> None:
    """Takes the snapshot, and publishes the export."""
    passwords = json.loads((settings.run_dir / "secrets" / "airflow-passwords.json").read_text())
    with AirflowRuns(AIRFLOW, AIRFLOW_USER, passwords[AIRFLOW_USER]) as airflow:
        for dag, run in {dag: airflow.trigger(dag, params) for dag, params in DAG_PARAMS.items()}.items():
            airflow.wait_for_run(dag, run, PATIENCE_S)


def ask() -> None:
    """Asks for one card after the other, of a client that knows two of the nodes, until TERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    answered, failures = 0, []
    with StateClient([NODES["a"], NODES["b"]], credentials=CREDENTIALS) as client:
        rewards = client.key_value("rewards")
        cards = [row.key for row in rewards.all()]
        print("it asks", flush=True)
        for card in itertools.cycle(cards):
            if ended.wait(0.02):
                break
            try:
                assert rewards.get(card).value is not None
                answered += 1
            except (StateError, AssertionError) as error:
                failures.append(f"{card!r}: {error!r}")
    print(json.dumps({"answered": answered, "failures": failures}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["publish", first, last]:
            publish_purchases(int(first), int(last))
        case ["check", last]:
            check(int(last))
        case ["ask"]:
            ask()
