"""`spark.read.format("storekeeper").load("words")` in a program of its own, beside a platform with Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import project
from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from tests.generations.now_app import WORDS
from tests.snapshots import played_app
from tests.snapshots.played_app import App

pytestmark = [pytest.mark.spark, pytest.mark.broker]
ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from storekeeper.generations.spark_source import StorekeeperDataSource

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(StorekeeperDataSource)
named = spark.read.format("storekeeper").option("keys", '["a", "b", "e"]').load("words")
words = spark.read.format("storekeeper").load("words")
past = spark.read.format("storekeeper").option("asOf", sys.argv[1]).load("words")
last = spark.read.format("storekeeper").option("tables", sys.argv[2]).load("words")
def rows(frame):
    return sorted([row["key"], row["Word"]] for row in frame.select("Word", "key").collect())
found = {
    "now": rows(words), "keys": rows(named), "where": rows(words.where("key IN ('a', 'b', 'e')")),
    "count": words.count(),
    "past": rows(past), "tables": rows(last), "columns": words.columns,
}
print("found " + json.dumps(found))
spark.stop()
"""

_QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""One compiler is enough for a JVM that lives for seconds."""


def test_a_program_reads_the_rows_of_now(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch has committed since the last snapshot is there, and a deleted row is not."""
    began_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr(played_app, "time_of", lambda batch, _: began_ms + batch)
    run_dir = tmp_path / "run"
    run_dir.mkdir(mode=0o700)
    (store,) = WORDS.stores
    broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
    app = App(broker, AppSettings(run_dir=run_dir, kafka_bootstrap=broker.bootstrap), store, now_ms=began_ms + 60_000)
    app.write(1, {"a": "apple", "b": "bread", "c": "cider"})
    app.commit(1)
    app.snapshot()
    app.write(2, {"a": "ale", "b": None, "e": "egg"})
    app.commit(2)
    own = project.environment(
        apps="tests.generations.now_app:WORDS",
        shared_apps="",
        project_dir=str(ROOT),
        run_dir=str(run_dir),
        kafka_bootstrap=broker.bootstrap,
    )
    tables = str(app.settings.delta_table("words").parent)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(began_ms + 1), tables],
        env={**os.environ, **own, **_QUICK, "PYSPARK_PYTHON": sys.executable},  # noqa: TID251 (the program's own)
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("found "))
    found = json.loads(line.removeprefix("found "))
    first = [["a", "apple"], ["b", "bread"], ["c", "cider"]]
    assert found["now"] == [["a", "ale"], ["c", "cider"], ["e", "egg"]]
    assert found["keys"] == found["where"] == [["a", "ale"], ["e", "egg"]]
    assert (found["past"], found["tables"], found["count"]) == (first, first, 3)
    assert found["columns"][:3] == ["key", "Word", "At"]
