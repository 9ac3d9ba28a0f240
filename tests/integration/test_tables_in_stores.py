"""Tables in HDFS and S3: written by Spark, read by deltalake and DuckDB, damaged and restored, while the store comes
and goes. Nothing is lost or doubled, and a store that is away is one clear error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import orjson
import psutil
import pytest
from deltalake import DeltaTable

from demo.oracle import MASKED_FIELDS
from harness.app_process import AppProcess
from harness.sales import good_sales
from harness.storage.place import frozen, is_asked
from harness.topics import end_offsets, write_topic
from harness.waiting import eventually
from storekeeper.program import ExitCode
from tests.integration.lake import PATIENCE_S, Lake, made_store, running_lake, shown

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("storekeeper/snapshots/test_tables_in_a_store.py has the tables in S3, without Spark"),
    pytest.mark.timeout(2400),  # a broker, a store, and eight Spark sessions one after the other
]


@pytest.fixture(scope="module", params=["hdfs", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp(f"lake-{request.param}")
    quick = {"storekeeper.engine.table_sink.stream:TRIGGER_INTERVAL_MS": 50}
    with running_lake(made_store(request.param, folder / "store"), folder, {}, quick) as found:
        yield found


def test_the_export_outlives_its_store_and_holds_every_line_item_once(lake: Lake) -> None:
    write_topic(lake.broker.bootstrap, "pos", good_sales(300, seed=5))
    pos = lake.apps.start("pos")
    pos.await_caught_up(end_offsets(lake.broker.bootstrap, "pos"))
    assert pos.terminate() == 0, pos.log_tail()
    export = lake.apps.start("hadoop_export", max_offsets_per_trigger="40")
    export.await_beat(lambda beat: (beat.batch_id or 0) >= 1, "some batches, and there are more")
    lake.store.go_away()
    assert export.await_exit() == ExitCode.FAILED, "the supervisor starts it again"
    lake.store.start()
    export = lake.apps.start("hadoop_export")
    export.await_caught_up(end_offsets(lake.broker.bootstrap, "hadoop-sink"))
    assert export.terminate() == 0, export.log_tail()
    rows = lake.table("hadoop_export_staged").to_pyarrow_table().to_pylist()
    assert Counter(tuple(row[name] for name in MASKED_FIELDS) for row in rows) == lake.expected().masked
    assert not (lake.apps.run_dir / "delta").exists(), "no table is in the run directory"


def test_a_job_whose_store_is_away_says_so_and_may_be_repeated(lake: Lake) -> None:
    lake.store.go_away()
    try:
        commands = (
            ("snapshot", "create", "rewards"),
            ("sql", "SELECT count(*) FROM rewards"),
            ("check", "hadoop_export"),
            ("generation", "seed", "pos"),
        )
        for command in commands:
            code, said = lake.run(*command)
            assert code == ExitCode.TRY_AGAIN, said[-3000:]
            assert f"the store of {lake.store.uri}" in said
            assert "Traceback" not in said
    finally:
        lake.store.start()
    lake.succeed("generation", "seed", "pos")  # it goes on with the generation that it had planned
    lake.succeed("generation", "retire", "pos")


def test_a_snapshot_is_written_verified_damaged_and_restored(lake: Lake) -> None:
    assert lake.succeed("snapshot", "create", "rewards")["committed"]
    rewards = {card: (reward.points, reward.invoices) for card, reward in lake.expected().rewards.items()}
    assert shown(lake) == rewards
    lake.succeed("verify", "rewards")
    lake.table("rewards").update(updates={"InvoiceCount": "InvoiceCount + 1"})
    code, said = lake.run("verify", "rewards")
    assert code == ExitCode.FINDING, said[-3000:]
    assert lake.succeed("snapshot", "restore", "rewards")["restored"]
    assert shown(lake) == rewards
    lake.succeed("verify", "rewards")
    lake.succeed("snapshot", "optimize", "rewards")
    lake.succeed("verify", "rewards")


def test_the_quality_gate_publishes_and_sql_counts_what_it_published(lake: Lake) -> None:
    assert lake.succeed("check", "hadoop_export")["status"] == "published"
    done = lake.apps.run("sql", "SELECT count(*) AS rows FROM hadoop_export", "--output", "json")
    assert orjson.loads(done.stdout) == {"rows": lake.expected().masked.total()}, done.stderr


JOBS = (("snapshot", "create", "rewards"), ("check", "hadoop_export"))


def test_a_store_that_freezes_holds_up_the_export_and_jobs_and_loses_nothing(lake: Lake) -> None:
    sell(lake, 100, seed=6)
    export = lake.apps.start("hadoop_export", max_offsets_per_trigger="40")
    with frozen(lake.store):
        await_connection(lake, export)
    export.await_caught_up(end_offsets(lake.broker.bootstrap, "hadoop-sink"))
    assert export.terminate() == 0, export.log_tail()
    for number, command in enumerate(JOBS):
        with frozen(lake.store):
            job = lake.apps.start_module(f"held-up-{number}", "storekeeper.cli.entry", *command)
            await_connection(lake, job)
        assert job.await_exit() == 0, job.log_tail()
    check_exact(lake)


def test_a_store_that_goes_away_under_a_job_is_named_and_the_job_is_repeated(lake: Lake) -> None:
    sell(lake, 100, seed=7)
    export = lake.apps.start("hadoop_export")
    export.await_caught_up(end_offsets(lake.broker.bootstrap, "hadoop-sink"))
    assert export.terminate() == 0, export.log_tail()
    for number, command in enumerate(JOBS):
        job = lake.apps.start_module(f"left-{number}", "storekeeper.cli.entry", *command)
        await_connection(lake, job, of_jvm=command[0] == "check")
        lake.store.go_away()
        try:
            # The job may have been done just before.
            assert job.await_exit() in {ExitCode.DONE, ExitCode.TRY_AGAIN}, job.log_tail()
            assert job.process.returncode == 0 or f"the store of {lake.store.uri}" in job.log_tail()
        finally:
            lake.store.start()
        lake.succeed(*command)
    check_exact(lake)


def sell(lake: Lake, count: int, *, seed: int) -> None:
    """More sales, and all that `pos` makes of them."""
    write_topic(lake.broker.bootstrap, "pos", good_sales(count, seed=seed))
    pos = lake.apps.start("pos")
    pos.await_caught_up(end_offsets(lake.broker.bootstrap, "pos"))
    assert pos.terminate() == 0, pos.log_tail()


def check_exact(lake: Lake) -> None:
    """Snapshot and published table hold exactly what was sold."""
    lake.succeed("verify", "rewards")
    expected = lake.expected()
    assert shown(lake) == {card: (reward.points, reward.invoices) for card, reward in expected.rewards.items()}
    rows = lake.table("hadoop_export").to_pyarrow_table().to_pylist()
    assert Counter(tuple(row[name] for name in MASKED_FIELDS) for row in rows) == expected.masked


def await_connection(lake: Lake, process: AppProcess, *, of_jvm: bool = False) -> None:
    """Waits until a process, or the JVM that it started, has a connection to the store, or the process has ended."""
    asking = psutil.Process(process.process.pid)

    def asks() -> bool:
        if process.process.poll() is not None:
            return True
        return is_asked(lake.store, [*asking.children(recursive=True), *([] if of_jvm else [asking])])

    eventually(asks, PATIENCE_S, "it asks the store")


def test_a_generation_is_seeded_takes_over_and_its_snapshot_is_restored(lake: Lake) -> None:
    write_topic(lake.broker.bootstrap, "pos", good_sales(50, seed=8))
    live = lake.apps.start("pos")
    live.await_caught_up(end_offsets(lake.broker.bootstrap, "pos"))
    lake.succeed("snapshot", "create", "rewards")
    first = lake.table("rewards").version()
    seeded = lake.succeed("generation", "seed", "pos", "--migration", "rewards-tier")
    assert seeded["candidate"] is not None
    beside = lake.apps.start_next("pos")
    write_topic(lake.broker.bootstrap, "pos", good_sales(50, seed=9))
    end = end_offsets(lake.broker.bootstrap, "pos")
    for process in (live, beside):
        process.await_caught_up(end)
    assert lake.succeed("generation", "handover", "pos")["live"] == seeded["candidate"]
    lake.succeed("generation", "retire", "pos")
    assert beside.await_exit() == 0, beside.log_tail()
    assert live.terminate() == 0, live.log_tail()

    assert lake.succeed("snapshot", "create", "rewards")["generation"] == seeded["candidate"]
    rewards = {card: (reward.points, reward.invoices) for card, reward in lake.expected().rewards.items()}
    assert tiered(lake) == rewards
    lake.succeed("verify", "rewards")
    lake.table("rewards").delete("InvoiceCount > 1")
    assert lake.run("verify", "rewards")[0] == ExitCode.FINDING
    assert lake.succeed("snapshot", "restore", "rewards")["restored"]
    assert tiered(lake) == rewards
    lake.succeed("verify", "rewards")
    before = DeltaTable(f"{lake.store.uri}/rewards", version=first).to_pyarrow_table()
    assert "TotalLoyaltyPoints" in before.column_names


def tiered(lake: Lake) -> dict[str, tuple[Any, int]]:
    """Points and invoices by card, in the second version of the rows."""
    rows = lake.table("rewards").to_pyarrow_table().to_pylist()
    return {
        row["CustomerCardNo"]: (
            Decimal(row["TotalLoyaltyPointsCents"] * 100 + row["HundredthsOfCent"]).scaleb(-4),
            row["InvoiceCount"],
        )
        for row in rows
    }
