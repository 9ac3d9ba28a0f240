"""Stores as a data source of Spark: their rows at any time and what became of keys, as a replay has them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from benchmarks.as_of import Size, make
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock
from storekeeper.errors import InvalidArgumentError
from storekeeper.generations import spark_source
from storekeeper.generations.spark_source import Past, StorekeeperDataSource, StorekeeperReader
from storekeeper.serdes.keys.windows import decode_window_row_key, window_row_key
from storekeeper.snapshots import duck
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.made_history import START_MS, Produced, fields_of, played
from tests.snapshots.test_rows_now import WORDS, World
from tests.snapshots.test_training import KEYS, known, labels

WINDOWS = [window_row_key(key, start) for key in KEYS[:3] for start in (0, 60_000)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Produced, Produced]:
    root = tmp_path_factory.mktemp("tables")
    rewards = played(2, KEYS[:3], batches=40, stray=0)
    sales = played(3, WINDOWS, batches=40, kind=ServedKind.WINDOW, stray=0)
    rewards.write(root, "rewards", appends=4)
    sales.write(root, "sales", appends=2)
    return root, rewards, sales


def reader(root: Path, store: str, at_ms: int, *columns: str, changes: bool = False) -> StorekeeperReader:
    history = StoreHistory.beside(root / store)
    assert history is not None
    return StorekeeperReader(Past(root / store, history.version, at_ms, changes, history.kind), list(columns))


def read(one: StorekeeperReader) -> list[dict[str, Any]]:
    return [row for part in one.partitions() for batch in one.read(part) for row in batch.to_pylist()]


def test_tasks_read_each_row_once(made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, sales = made
    for at_ms in (START_MS, *(ms for ms, _ in rewards.states[::9])):
        one = reader(root, "rewards", at_ms, "key", "Points")
        assert len(one.partitions()) == 3
        expected = sorted((key.decode(), fields_of(value)["Points"]) for (_, key), value in rewards.at(at_ms).items())
        assert sorted((row["key"], row["Points"]) for row in read(one)) == expected
    at_ms = sales.states[20][0]
    found = read(reader(root, "sales", at_ms, "key", "start_ms"))
    expected_keys = sorted(decode_window_row_key(key)[:2] for _, key in sales.at(at_ms))
    assert sorted((row["key"].encode(), row["start_ms"]) for row in found) == expected_keys


def test_filters_on_keys_are_pushed_down_and_others_are_not(made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, sales = made
    visits = GreaterThan(("Visits",), 5)
    one = reader(root, "sales", sales.now_ms, "key")
    assert list(one.pushFilters([EqualTo(("key",), "aa"), visits])) == [visits]
    assert len(one.partitions()) == 1
    assert {row["key"] for row in read(one)} <= {"aa"}
    assert len(read(one)) == sum(decode_window_row_key(key)[0] == b"aa" for _, key in sales.rows)
    other = reader(root, "rewards", rewards.now_ms, "key")
    assert not list(other.pushFilters([In(("key",), ("a", "card-7")), In(("key",), ("aa", "card-7"))]))
    assert [row["key"] for row in read(other)] == [key.decode() for _, key in rewards.rows if key == b"card-7"]
    none = reader(root, "rewards", rewards.now_ms, "key")
    assert not list(none.pushFilters([EqualTo(("key",), "a"), EqualTo(("key",), "aa")]))
    assert read(none) == []


def test_filters_on_keys_hold_for_changes_too(made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, _ = made
    one = reader(root, "rewards", rewards.now_ms, "key", "deleted", changes=True)
    assert list(one.pushFilters([EqualTo(("key",), "a")])) == []
    assert {row["key"] for row in read(one)} == {"a"}


@pytest.mark.parametrize(
    ("path", "options", "columns"),
    [
        ("rewards", {}, "`key` string, `Card` string, `Points` decimal(18,4), `Visits` int, `_partition` int"),
        ("rewards", {"changes": "true"}, "`key` string, `changed_at` timestamp, `deleted` boolean, `Card` string"),
        ("sales", {"asOf": "2026-01-01T00:00:00Z"}, "`key` string, `start_ms` bigint, `Card` string"),
    ],
)
def test_the_columns_follow_from_the_store(
    made: tuple[Path, Produced, Produced], path: str, options: dict[str, str], columns: str
) -> None:
    source = StorekeeperDataSource({"path": path, "tables": str(made[0]), **options})
    assert source.schema().startswith(columns)


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("rewards", {"asOf": "2020-01-01"}, "the earliest exact time is 2026-01-01"),
        ("rewards", {"asOf": "yesterday"}, "as_of is epoch milliseconds"),
        ("rewards", {"changes": "yes"}, "option changes is true or false"),
        ("rewards", {"at": "now"}, "has no option at"),
        ("nothing", {}, "no history of a store 'nothing'"),
        ("a/rewards", {}, "name one store"),
    ],
)
def test_what_can_not_be_read_is_refused(
    made: tuple[Path, Produced, Produced], path: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        StorekeeperDataSource({"path": path, "tables": str(made[0]), **options}).schema()


def test_without_options_the_rows_are_those_of_the_changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan goes to other processes, and a filter on keys with it."""
    world = World(tmp_path, monkeypatch)
    monkeypatch.setattr(spark_source, "live_store", lambda *_: (WORDS, world.settings))
    monkeypatch.setattr(AppSettings, "of_platform", lambda: world.settings)
    monkeypatch.setattr(spark_source, "SystemClock", lambda: ManualClock(world.played.now_ms))
    world.batch({"a1": "x", "b1": "y", "c1": "z"})
    world.snapshot()
    world.batch({"a1": "w", "b1": None})
    source = StorekeeperDataSource({"path": "words"})
    assert source.schema().startswith("`key` string, `Word` string, `_partition` int")
    schema = StructType([StructField("Word", StringType()), StructField("key", StringType())])
    one = source.reader(schema)
    assert isinstance(one, StorekeeperReader)
    sent = cloudpickle.loads(cloudpickle.dumps(one))  # type: ignore[no-untyped-call]
    assert sorted(row["key"] + row["Word"] for row in read(sent)) == ["a1w", "c1z"]
    assert not list(one.pushFilters([EqualTo(("key",), "c1")]))
    assert read(one) == [{"Word": "z", "key": "c1"}]
    with pytest.raises(InvalidArgumentError, match="name one store"):
        StorekeeperDataSource({}).schema()


def test_a_task_reads_more_changes_than_its_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "rewards", Size(changes=300_000, keys=6_000, points=0))
    monkeypatch.setattr(duck, "_MEMORY_LIMIT", "40MB")
    history = StoreHistory.beside(tmp_path / "rewards")
    assert history is not None
    one = reader(tmp_path, "rewards", history.coverage.to_ms, "key", "changed_at", changes=True)
    counted = sum(batch.num_rows for batch in one.read(InputPartition((0, 1))))
    assert counted > 290_000, "but for those of a key that one batch changed twice"


@pytest.fixture(scope="module")
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    spark_session.dataSource.register(StorekeeperDataSource)
    spark_session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark_session
    spark_session.conf.unset("spark.sql.python.filterPushdown.enabled")


def load(spark: SparkSession, root: Path, store: str, **options: int | str) -> DataFrame:
    return spark.read.format("storekeeper").options(tables=str(root), **options).load(store)


@pytest.mark.spark
def test_spark_reads_rows_now_and_as_of_a_time(spark: SparkSession, made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, _ = made
    now = load(spark, root, "rewards")
    assert {(row["key"], row["Points"]) for row in now.collect()} == {
        (key.decode(), fields_of(value)["Points"]) for (_, key), value in rewards.rows.items()
    }
    at_ms = rewards.states[11][0]
    then = load(spark, root, "rewards", asOf=at_ms).where("key = 'a'").select("Visits", "Points")
    expected = known(rewards, b"a", at_ms)
    assert [row.asDict() for row in then.collect()] == (
        [] if expected is None else [{name: expected[name] for name in ("Visits", "Points")}]
    )
    with pytest.raises(AnalysisException, match="earliest exact time is 2026-01-01"):
        load(spark, root, "rewards", asOf="2020-01-01").collect()


@pytest.mark.spark
def test_a_point_in_time_join_gives_what_was_known_then(
    spark: SparkSession, made: tuple[Path, Produced, Produced]
) -> None:
    root, rewards, _ = made
    asked = labels(rewards, random.Random(5), 200)
    times = [
        (number, key.decode(), datetime.datetime.fromtimestamp(at / 1000, datetime.UTC)) for number, key, at in asked
    ]
    points = spark.createDataFrame(times, "number int, key string, at timestamp")
    # As in docs/how-to/make-training-sets.md:
    changes = load(spark, root, "rewards", changes="true")
    known_then = (
        points.join(changes, "key")
        .where("changed_at <= at")
        .groupBy("number")
        .agg(F.max_by(F.struct("deleted", "Points", "Visits"), "changed_at").alias("then"))
        .where("not then.deleted")
        .select("number", "then.*")
    )
    found = {row["number"]: row for row in points.join(known_then, "number", "left").collect()}
    for number, key, at_ms in asked:
        expected = known(rewards, key, at_ms) or {"Points": None, "Visits": None}
        assert (found[number]["Points"], found[number]["Visits"]) == (expected["Points"], expected["Visits"])
