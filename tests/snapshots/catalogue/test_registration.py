"""Tables in Spark's catalogue: entered once, commented, found by name from another Spark, and never moved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from harness.app_process import AppProcesses
from spark_apps.pos import POS
from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import SparkProperties
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.clock import ManualClock
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.generations.live import live_stores
from storekeeper.program import ExitCode
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.catalogue.entry import entries_of, entry_of_store
from storekeeper.snapshots.catalogue.registration import register, register_tables
from storekeeper.snapshots.columns import PLACE_MEANINGS, StoreValues
from storekeeper.snapshots.proof import check_proven
from tests.snapshot_tables import Row, manifest_of, sealed_at, write_snapshot
from tests.snapshots.catalogue.metastore import comments, derby, spark_sql

ON_SPARK = pytest.mark.long("test_registration.py has the entries, test_proof.py has the comments")
REWARDS = POS.stores[0]
VALUE = b'{"CustomerCardNo":"C%d","TotalLoyaltyPoints":1.5000,"InvoiceCount":%d,"LastInvoiceTime":1000}'
EXPORTED = pa.table({"InvoiceNumber": ["1", "2"], "City": ["Bern", None]})
POINTS = "The points that the customer has earned, with four decimals."


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    """Those of a run directory with a snapshot of `rewards` and a published export."""
    held = [Row(0, number, 1000, b"C%d" % number, VALUE % (number, number)) for number in range(5)]
    manifest = manifest_of(held, store="rewards", app="pos", changelog_topic=REWARDS.changelog_topic)
    write_snapshot(tmp_path / "delta" / "rewards", held, REWARDS.value_fields, manifest=manifest)
    write_deltalake(tmp_path / "delta" / "hadoop_export", EXPORTED)
    write_deltalake(tmp_path / "delta" / "hadoop_export_staged", EXPORTED)
    return AppSettings(run_dir=tmp_path)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of Spark fails."""

    def start(*_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("storekeeper.snapshots.catalogue.registration.leased_session", start)


def files(settings: AppSettings) -> set[Path]:
    """The data files of all tables."""
    return set((settings.run_dir / "delta").rglob("*.parquet"))


def test_every_table_that_is_there_becomes_an_entry_and_says_what_it_holds(settings: AppSettings) -> None:
    rewards, export = entries_of(live_stores(settings), settings)
    assert (rewards.name, rewards.lease, rewards.columns["TotalLoyaltyPoints"]) == (
        *("rewards", "rewards@snapshot"),
        POINTS,
    )
    assert (export.name, export.lease) == ("hadoop_export", "hadoop_export@quality")
    assert "_offset" in rewards.columns
    assert not [name for name in export.columns if name.startswith("_")]
    assert replace(rewards, table="order-locations").name == "order_locations"


def test_a_column_says_what_its_field_says_or_else_its_declaration(settings: AppSettings) -> None:
    fields = (ValueField("Total", "bigint", meaning="By the field."), ValueField("Count", "bigint"))
    store = StoreSpec("totals", "shop", fields)
    declared = CheckedTable(
        "totals",
        (
            CheckedColumn("Total", "bigint", meaning="By the declaration."),
            CheckedColumn("Count", "bigint", meaning="By the declaration, too."),
        ),
    )
    app = AppSpec("shop", "Totals", lambda _: (), lambda _: (), stores=(store,), tables=(declared,))
    entry = entry_of_store(store, app, settings)
    assert entry.meaning == "Snapshots of store totals of app shop: Totals."
    assert entry.columns == {**PLACE_MEANINGS, "Total": "By the field.", "Count": "By the declaration, too."}


@pytest.mark.spark
@ON_SPARK
def test_a_table_is_entered_once_with_comments_and_stays_what_it_is(settings: AppSettings, spark: SparkSession) -> None:
    before = files(settings)
    rewards, _ = entries_of(live_stores(settings), settings)
    assert register(spark, rewards) is True
    assert spark.sql("SELECT sum(InvoiceCount) FROM rewards").collect()[0][0] == 10
    assert comments(spark, "rewards") | {"TotalLoyaltyPoints": POINTS} == comments(spark, "rewards")
    seal = sealed_at(rewards.path).current(whole=True)
    assert seal is not None
    verified = seal.verified
    assert verified is not None
    check_proven(rewards.path, verified, StoreValues(REWARDS.value_fields))

    assert register(spark, rewards) is False
    again = sealed_at(rewards.path).current()
    assert again is not None
    assert again.verified == verified
    changed = replace(rewards, columns={**rewards.columns, "InvoiceCount": "It's how many \\ there are."})
    assert register(spark, changed) is True
    assert comments(spark, "rewards")["InvoiceCount"] == "It's how many \\ there are."
    assert files(settings) == before


@pytest.mark.spark
@ON_SPARK
def test_another_table_of_the_same_name_is_left_alone(settings: AppSettings, spark: SparkSession) -> None:
    rewards, export = entries_of(live_stores(settings), settings)
    register(spark, replace(export, table="rewards"))
    assert comments(spark, "rewards") == {"City": "Of the delivery address; null without one."}
    with pytest.raises(ConfigurationError, match=r"has a table rewards at .*hadoop_export.*drop that entry"):
        register(spark, rewards)
    assert spark.table("rewards").count() == EXPORTED.num_rows


@pytest.mark.spark
@pytest.mark.timeout(2400)  # four sessions of Spark, one after the other
@ON_SPARK
def test_a_users_own_spark_finds_the_tables_in_a_metastore(settings: AppSettings, tmp_path: Path) -> None:
    metastore = derby(tmp_path)
    apps = AppProcesses(settings.run_dir, "127.0.0.1:9", {"spark": json.dumps(metastore)}, patience_s=900)

    def registered(*arguments: str) -> dict[str, Any]:
        done = apps.run("tables", "--register", *arguments, "--output", "json")
        assert done.returncode == 0, done.stderr[-3000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    both = ["rewards", "hadoop_export"]
    assert registered() == {"tables": both, "changed": both}
    assert registered() == {"tables": both, "changed": []}
    answer = spark_sql(metastore, tmp_path, "SELECT sum(InvoiceCount) FROM rewards; DESCRIBE TABLE rewards")
    assert answer.splitlines()[0] == "10"
    assert POINTS in answer
    done = apps.run("tables", "--register", "--schema", "no_such")
    assert (done.returncode, "has no schema 'no_such'" in done.stderr) == (ExitCode.CONFIGURATION, True)


@pytest.mark.parametrize("given", [{}, {"sql.catalogImplementation": "in-memory"}])
def test_a_catalogue_that_ends_with_the_session_is_refused_before_spark_starts(
    settings: AppSettings, no_spark: None, given: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="no catalogue is configured"):
        register_tables(
            AppSettings(run_dir=settings.run_dir, spark=SparkProperties(given)),
            live_stores(settings),
            None,
            ManualClock(),
        )


@pytest.mark.parametrize("schema", ["", "shop.", " "])
def test_what_is_no_name_of_a_schema_is_refused_before_spark_starts(
    settings: AppSettings, no_spark: None, schema: str
) -> None:
    lasting = AppSettings(run_dir=settings.run_dir, spark=SparkProperties({"sql.catalogImplementation": "hive"}))
    with pytest.raises(InvalidArgumentError, match="can't be the name of a schema"):
        register_tables(lasting, live_stores(settings), schema, ManualClock())


def test_spark_starts_for_a_catalogue_that_its_own_folder_names(
    settings: AppSettings, no_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.catalogImplementation hive\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="Spark was started"):
        register_tables(settings, live_stores(settings), "shop", ManualClock())


def test_the_command_ends_with_78_without_a_catalogue(settings: AppSettings) -> None:
    done = AppProcesses(settings.run_dir, "127.0.0.1:9", patience_s=900).run("tables", "--register")
    assert done.returncode == ExitCode.CONFIGURATION
    assert "no catalogue is configured" in done.stderr
