"""Topologies on real Spark and Kafka."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.broker import Broker
from harness.poison import ODD_TIMES_MS
from storekeeper.apps.errors import MisplacedKeyError
from storekeeper.apps.topology_app import Describe
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine import stream
from storekeeper.ops.waiting import eventually
from storekeeper.serdes.keys.windows import decode_window_row_key
from tests.engine import topologies
from tests.engine.spark_run import SparkRun
from tests.open_transactions import begun, ends_when_awaited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

MakeRun = Callable[[str, Describe], SparkRun]
NOW_MS = int(time.time() * 1000) - 3_600_000  # a topic would soon let older records go


@pytest.fixture
def make_run(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> MakeRun:
    return lambda app, describe: SparkRun(app, describe, broker, spark_session, tmp_path / app)


def test_a_count_goes_on_from_batch_to_batch(make_run: MakeRun) -> None:
    run = make_run("counted", topologies.counted)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    run.produce("counted-events", [(b"a", b"1", NOW_MS), (b"b", b"10", NOW_MS + 1), (b"a", b"2", NOW_MS + 2)])
    run.run()
    run.produce("counted-events", [(b"a", b"4", NOW_MS + 3), (b"x", b"no number", NOW_MS + 4)])
    run.run()
    rows = run.rows("counted-totals-changelog")
    assert {key: orjson.loads(value) for key, value in rows.items()} == {
        b"a": {"events": 3, "total": 7},
        b"b": {"events": 1, "total": 10},
    }
    newest = {key: time for _, key, _, time in run.records("counted-totals-changelog")}
    assert newest == {b"a": NOW_MS + 3, b"b": NOW_MS + 1}
    out = [(key, orjson.loads(value or b"")["total"]) for _, key, value, _ in run.records("counted-out")]
    assert [total for key, total in out if key == b"a"] == [1, 3, 7]
    [(_, key, value, _)] = run.records("counted-dlq")
    assert (key, value) == (b"x", b"no number")


def test_rows_with_a_ttl_go_by_themselves_also_where_their_store_was_restored(make_run: MakeRun) -> None:
    run = make_run("passing", topologies.passing)
    run.make_topics({"passing-numbers": 1})
    run.produce("passing-numbers", [(b"a", b"1", NOW_MS), (b"b", b"2", NOW_MS + 5000), (b"late", b"3", NOW_MS - 9000)])
    run.run()
    assert run.rows("passing-rows-changelog") == {b"a": b"1", b"b": b"2"}
    for store in run.settings.run_dir.rglob("rows"):
        shutil.rmtree(store)
    run.produce("passing-numbers", [(b"c", b"4", NOW_MS + 10_000), (b"b", b"5", NOW_MS + 12_000)])
    run.run()
    assert run.rows("passing-rows-changelog") == {b"b": b"5", b"c": b"4"}
    run.produce("passing-numbers", [(b"d", b"6", NOW_MS + 20_000)])
    run.run()
    assert run.rows("passing-rows-changelog") == {b"b": b"5", b"d": b"6"}


def test_records_come_together_by_a_shuffle_within_the_batch(make_run: MakeRun, spark_session: SparkSession) -> None:
    before = shuffle_files(spark_session)
    run = make_run("shuffled", topologies.shuffled)
    run.make_topics({"shuffled-numbers": 4, "shuffled-copies": 2, "shuffled-out": 2})
    for batch in range(3):
        numbers = range(batch * 50, batch * 50 + 50)
        run.produce("shuffled-numbers", [(b"%d" % (n % 7), b"%d" % n, NOW_MS + n) for n in numbers])
        run.run()
    assert sorted(int(value or b"") for _, _, value, _ in run.records("shuffled-copies")) == list(range(150))
    rows = run.rows("shuffled-digits-changelog")
    expected = {b"%d" % digit: {"events": 15, "total": sum(range(digit, 150, 10))} for digit in (1, 3, 5, 7, 9)}
    assert {key: orjson.loads(value) for key, value in rows.items()} == expected
    assert len(run.records("shuffled-out")) == 75
    assert not [topic for topic in run.topics() if topic.endswith("repartition")]
    assert eventually(lambda: shuffle_files(spark_session) <= before, 30), "records stay on the disk"


def shuffle_files(spark: SparkSession) -> set[Path]:
    """What Spark keeps of the rows that went through shuffles."""
    (blocks,) = Path(spark.sparkContext.getConf().get("spark.local.dir") or "").glob("blockmgr-*")
    return {*blocks.rglob("shuffle_*")}


def test_tables_are_joined_and_behind_state_records_go_by_a_topic(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PURGE_INTERVAL_S", 0.0)
    run = make_run("joined", topologies.joined)
    run.make_topics({"joined-customers": 3, "joined-items": 2, "joined-sales": 3, "joined-out": 1})
    run.produce("joined-items", [(b"a", b"apple", NOW_MS), (b"p", b"pear", NOW_MS)])
    customers = [(b"c%d" % n, b'{"city":"city-%d"}' % (n % 2), NOW_MS) for n in range(10)]
    run.produce("joined-customers", customers)
    sold = 0
    for batch in range(3):
        sales = [(b"c%d" % (n % 11), b'{"item":"%c","number":%d}' % (b"ap"[n % 2], n), NOW_MS + 1 + n)
                 for n in range(batch * 60, batch * 60 + 60)]  # fmt: skip
        run.produce("joined-sales", sales)
        sold += len([sale for sale in sales if sale[0] != b"c10"])
        run.settle("joined-out", sold)
    expected: dict[bytes, int] = {}
    for n in range(180):
        if n % 11 != 10:
            key = b"city-%d %s" % (n % 11 % 2, [b"apple", b"pear"][n % 2])
            expected[key] = expected.get(key, 0) + n
    assert {key: int(value) for key, value in run.rows("joined-cities-changelog").items()} == expected
    assert len(run.rows("joined-customers-changelog")) == 10
    [repartition] = [topic for topic in run.topics() if topic.endswith("repartition")]
    begins, _ = run.bounds(repartition)
    assert sum(begins.values()) > 0, "what was read is deleted"


def test_a_batch_loses_no_window_without_grace_behind_a_topic(make_run: MakeRun) -> None:
    run = make_run("regions", topologies.regions)
    run.make_topics({"regions-users": 4, "regions-views": 4})
    users = {b"u%d" % n: [b"north", b"south", b"west"][n % 3] for n in range(20)}
    run.produce("regions-users", [(user, region, NOW_MS) for user, region in users.items()])
    views = [(b"u%d" % (n * n % 20), NOW_MS + 1 + 50 * n) for n in range(600)]
    run.produce("regions-views", [(b"page-%d" % (n % 7), user, time_ms) for n, (user, time_ms) in enumerate(views)])
    run.run()
    expected = Counter((users[user], time_ms // 1000 * 1000) for user, time_ms in views)
    found = {decode_window_row_key(key)[:2]: int(value) for key, value in run.rows("regions-regions-changelog").items()}
    assert found == expected


def test_a_backlog_of_many_batches_loses_no_window_behind_a_topic(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun(
        "late", topologies.late_regions, broker, spark_session, tmp_path / "late", max_offsets_per_trigger=200
    )
    run.make_topics({"late-users": 4, "late-views": 4})
    users = {b"u%d" % n: [b"north", b"south", b"west"][n % 3] for n in range(20)}
    run.produce("late-users", [(user, region, NOW_MS) for user, region in users.items()])
    run.run()
    views = [(b"u%d" % (n * n % 20), NOW_MS + 1 + 50 * n) for n in range(1600)]
    for n, (user, time_ms) in enumerate(views):
        run.produce("late-views", [(b"page", user, time_ms)], partition=n % 4)
    run.run()
    assert (run.checkpoint.last_committed_batch() or 0) > 8, "there were many batches"
    expected = Counter((users[user], time_ms // 1000 * 1000) for user, time_ms in views)
    found = {decode_window_row_key(key)[:2]: int(value) for key, value in run.rows("late-regions-changelog").items()}
    assert found == expected


def test_a_backlog_loses_no_window_for_records_whose_times_in_kafka_are_odd(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun(
        "timed", topologies.timed_views, broker, spark_session, tmp_path / "run", max_offsets_per_trigger=200
    )
    run.make_topics({"timed-views": 4}, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    expected, odd_ms = Counter[tuple[bytes, int]](), cycle(ms for ms in ODD_TIMES_MS.values() if ms > 0)
    for n in range(3000):
        user, at_ms = b"u%d" % (n * n % 20), NOW_MS + 1 + 50 * n
        in_kafka_ms = next(odd_ms) if n % 97 == 96 else at_ms
        run.produce("timed-views", [(b"page", b"%b %d" % (user, at_ms), in_kafka_ms)], partition=n % 4)
        expected[user, at_ms // 1000 * 1000] += 1
    run.run()
    assert (run.checkpoint.last_committed_batch() or 0) > 12, "there were many batches"
    found = {decode_window_row_key(key)[:2]: int(value) for key, value in run.rows("timed-users-changelog").items()}
    assert found == expected


def test_a_batch_behind_a_topic_has_all_that_the_one_before_wrote_there(
    make_run: MakeRun, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("late", topologies.late_regions)
    run.make_topics({"late-users": 4, "late-views": 4})
    run.produce("late-users", [(b"u%d" % n, b"north", NOW_MS) for n in range(20)])
    run.run()
    [topic] = [name for name in run.topics() if name.endswith("repartition")]
    run.produce("late-views", [(b"page", b"u%d" % (n % 20), NOW_MS + n) for n in range(100)])
    # As if the broker had not yet marked what is written behind this as committed.
    ends_when_awaited(begun(broker, topic, partition_for(b"north", 4)), monkeypatch)
    run.run()
    assert sum(map(int, run.rows("late-regions-changelog").values())) == 100


def test_full_topics_give_at_a_first_start_what_they_give_live(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("regions", topologies.regions, broker, spark_session, tmp_path / "full", max_offsets_per_trigger=200)
    run.make_topics({"regions-users": 4, "regions-views": 4})
    names, expected, lives_in = [b"north", b"south", b"west"], Counter[tuple[bytes, int]](), dict[bytes, bytes]()
    for n in range(1500):  # whoever views a page has moved before, and nothing waits for anything
        user, at_ms = b"u%d" % (n * n % 20), NOW_MS + 1 + 50 * n
        if n % 5 == 0:
            lives_in[user] = names[n % 3]
            run.produce("regions-users", [(user, lives_in[user], at_ms)])
        run.produce("regions-views", [(b"page", user, at_ms)], partition=n % 4)
        expected[lives_in.get(user, b"nowhere"), at_ms // 1000 * 1000] += 1
    run.run()
    assert (run.checkpoint.last_committed_batch() or 0) > 8, "there were many batches"
    found = {decode_window_row_key(key)[:2]: int(value) for key, value in run.rows("regions-regions-changelog").items()}
    assert found == expected


def test_an_app_goes_on_with_its_first_repartition_topic(make_run: MakeRun) -> None:
    before, run = make_run("growing", topologies.growing), make_run("growing", topologies.grown)
    before.make_topics({"growing-numbers": 2, "growing-out": 1})
    before.produce("growing-numbers", [(b"a", b"1", NOW_MS), (b"b", b"2", NOW_MS)])
    before.run()
    assert before.rows("growing-sums-changelog") == {b"a": b"1", b"b": b"2"}
    run.produce("growing-numbers", [(b"a", b"3", NOW_MS), (b"b", b"5", NOW_MS)])
    run.run()
    assert run.rows("growing-sums-changelog") == {b"a": b"4", b"b": b"7"}
    assert sorted(value or b"" for _, _, value, _ in run.records("growing-out")) == [b"4", b"7"]


def test_keys_that_nodes_would_not_find_are_refused(make_run: MakeRun) -> None:
    run = make_run("counted", topologies.counted)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    other = 1 - partition_for(b"a", 2)
    run.produce("counted-events", [(b"a", b"1", NOW_MS)], partition=other)
    with pytest.raises(MisplacedKeyError, match=f"at {other}@0 a key that belongs to partition {1 - other}"):
        run.run()
    assert run.rows("counted-totals-changelog") == {}


def test_a_row_that_a_clean_up_deleted_begins_anew(make_run: MakeRun) -> None:
    run = make_run("counted", topologies.counted)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    run.produce("counted-events", [(b"a", b"1", NOW_MS), (b"b", b"10", NOW_MS)])
    run.run()
    run.produce("counted-totals-changelog", [(b"a", None, NOW_MS)])
    run.produce("counted-events", [(b"a", b"5", NOW_MS + 1), (b"b", b"5", NOW_MS + 1)])
    run.run()
    rows = {key: orjson.loads(value) for key, value in run.rows("counted-totals-changelog").items()}
    assert rows == {b"a": {"events": 1, "total": 5}, b"b": {"events": 2, "total": 15}}
