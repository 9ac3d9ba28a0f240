"""Stores as a data source of Spark: their rows at any time and what became of keys, as a replay has them."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from benchmarks.as_of import Size, make
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock
from storekeeper.errors import InvalidArgumentError, NotExactError
from storekeeper.generations import spark_source
from storekeeper.generations.spark_source import Past, StorekeeperDataSource, StorekeeperReader
from storekeeper.serdes.keys.windows import decode_window_row_key, window_row_key
from storekeeper.snapshots import duck
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.made_history import START_MS, Produced, fields_of, played, value_of
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


def reader(
    root: Path, store: str, at_ms: int, *columns: str, changes: bool = False, keys: list[str] | None = None
) -> StorekeeperReader:
    history = StoreHistory.beside(root / store)
    assert history is not None
    asked = Past(root / store, history.version, at_ms, changes, history.kind)
    return StorekeeperReader(asked, list(columns), keys)


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


def test_no_other_key_is_read_than_those_that_are_named(made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, sales = made
    one = reader(root, "sales", sales.now_ms, "key", keys=["aa"])
    assert len(one.partitions()) == 1
    assert {row["key"] for row in read(one)} <= {"aa"}
    assert len(read(one)) == sum(decode_window_row_key(key)[0] == b"aa" for _, key in sales.rows)
    other = reader(root, "rewards", rewards.now_ms, "key", keys=["card-7", "nobody"])
    assert [row["key"] for row in read(other)] == [key.decode() for _, key in rewards.rows if key == b"card-7"]
    assert read(reader(root, "rewards", rewards.now_ms, "key", keys=[])) == []
    many = [f"nobody-{number}" for number in range(5000)]
    other = reader(root, "rewards", rewards.now_ms, "key", keys=["card-7", *many])
    assert [row["key"] for row in read(other)] == [key.decode() for _, key in rewards.rows if key == b"card-7"]


def test_named_keys_hold_for_changes_too(made: tuple[Path, Produced, Produced]) -> None:
    root, rewards, _ = made
    one = reader(root, "rewards", rewards.now_ms, "key", "deleted", changes=True, keys=["a"])
    assert {row["key"] for row in read(one)} == {"a"}
    many = [*(f"nobody-{number}" for number in range(5000)), "a"]
    again = reader(root, "rewards", rewards.now_ms, "key", "deleted", changes=True, keys=many)
    assert len(read(again)) == len(read(one))


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


NAMED_ALIKE = {"Card": "Key", "Points": "changed_at", "Visits": "start_ms"}
"""Columns of a store whose names Spark takes for those of the source's own columns."""


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of windows; its second change is a deletion."""
    root = tmp_path_factory.mktemp("alike")
    produced = Produced(ServedKind.WINDOW)
    for value in (value_of("c1", "1.5", 7), None):
        produced.commit([(2, window_row_key(b"a", 60_000), value)])
    produced.write(root, "sales", names=NAMED_ALIKE)
    return root


def test_columns_of_a_store_are_told_from_those_of_the_source(alike: Path) -> None:
    at_ms = START_MS + 60_000
    source = StorekeeperDataSource({"path": "sales", "tables": str(alike), "asOf": str(at_ms)})
    columns = "`key` string, `start_ms` bigint, `Key_1` string, `changed_at` decimal(18,4), `start_ms_1` int, "
    assert source.schema().startswith(columns)
    (row,) = read(reader(alike, "sales", at_ms, "start_ms_1", "key", "Key_1", "start_ms", "changed_at"))
    assert [*map(str, row.values())] == ["7", "a", "c1", "60000", "1.5000"]
    source = StorekeeperDataSource({"path": "sales", "tables": str(alike), "changes": "true"})
    names = [column.split()[0].strip("`") for column in source.schema().split(", ")]
    own = ["key", "start_ms", "changed_at", "deleted"]
    assert names == [*own, "Key_1", "changed_at_1", "start_ms_1", "_partition", "_key"]
    shown = [*own, "Key_1", "changed_at_1", "start_ms_1", "_partition"]
    rows = read(reader(alike, "sales", at_ms + 60_000, *shown, changes=True))
    rows.sort(key=lambda row: row.pop("changed_at"))
    assert [[*map(str, row.values())] for row in rows] == [
        ["a", "60000", "False", "c1", "1.5000", "7", "2"],
        ["a", "60000", "True", "None", "None", "None", "2"],
    ]


@pytest.mark.spark
def test_spark_selects_a_key_beside_a_column_of_its_name(spark: SparkSession, alike: Path) -> None:
    changes = load(spark, alike, "sales", changes="true")
    (row,) = changes.where("key = 'a' and not deleted").select("key", "Key_1", "start_ms").collect()
    assert tuple(row) == ("a", "c1", 60_000)


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("rewards", {"asOf": "2020-01-01"}, "the earliest exact time is 2026-01-01"),
        ("rewards", {"asOf": "yesterday"}, "as_of is epoch milliseconds"),
        ("rewards", {"changes": "yes"}, "option changes is true or false"),
        ("rewards", {"at": "now"}, "has no option at"),
        ("rewards", {"keys": "a"}, "option keys is a JSON list of texts"),
        ("rewards", {"keys": "[1]"}, "option keys is a JSON list of texts"),
        ("nothing", {}, "no history of a store 'nothing'"),
        ("a/rewards", {}, "name one store"),
    ],
)
def test_what_can_not_be_read_is_refused(
    made: tuple[Path, Produced, Produced], path: str, options: dict[str, str], says: str
) -> None:
    source = StorekeeperDataSource({"path": path, "tables": str(made[0]), **options})
    with pytest.raises(InvalidArgumentError, match=says):
        source.reader(StructType([StructField("key", StringType())]))


def test_a_row_whose_key_no_window_store_makes_has_no_times(tmp_path: Path) -> None:
    produced = Produced(ServedKind.WINDOW)
    produced.commit([(0, window_row_key(b"c1", 60_000), value_of("x", "1", 1)), (1, b"foreign", value_of("x", "1", 1))])
    produced.write(tmp_path, "sales")
    rows = read(reader(tmp_path, "sales", produced.now_ms, "key", "start_ms"))
    assert sorted((row["key"], row["start_ms"]) for row in rows) == [("c1", 60_000), ("foreign", None)]


def test_changes_until_a_time_that_is_not_known_are_refused(made: tuple[Path, Produced, Produced]) -> None:
    later = str(made[1].now_ms + 1)
    source = StorekeeperDataSource({"path": "rewards", "tables": str(made[0]), "changes": "true", "asOf": later})
    with pytest.raises(NotExactError, match="is not known yet"):
        source.reader(StructType([StructField("key", StringType())]))


def test_without_options_the_rows_are_those_of_the_changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan goes to other processes, and the named keys with it."""
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
    named = StorekeeperDataSource({"path": "words", "keys": '["c1"]'}).reader(schema)
    assert isinstance(named, StorekeeperReader)
    assert read(cloudpickle.loads(cloudpickle.dumps(named))) == [{"Word": "z", "key": "c1"}]  # type: ignore[no-untyped-call]
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
def spark(spark_session: SparkSession) -> SparkSession:
    spark_session.dataSource.register(StorekeeperDataSource)
    return spark_session


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
    then = load(spark, root, "rewards", asOf=at_ms, keys='["a"]').select("Visits", "Points")
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
