"""What a generation begins with, on real Spark and Kafka: rows, buffers of joins and times of tasks, or the input."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import orjson
import pyarrow as pa
import pytest

from harness.broker import Broker
from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.stream import StreamContext
from storekeeper.engine.runtime.topics import TopicBounds, Topics
from storekeeper.engine.stream import open_topology_stream
from storekeeper.generations import seeding as seeding_module
from storekeeper.generations import steps
from storekeeper.generations.catalog import first_journal, spec_of
from storekeeper.generations.comparison import ComparisonVerdict, compare_generations
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError, UnconvertibleRowsError
from storekeeper.generations.journal import Generation, Journal
from storekeeper.generations.migration import StoreMigration, StoreRecord
from storekeeper.generations.seeding import Seed, Seeding
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.topology import JoinWindows, ProcessorContext, Store, StreamsBuilder, tumbling, with_key
from tests.engine.spark_run import SparkRun, run_query
from tests.integration import grouped_app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

HERE = __name__
NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


class Total(msgspec.Struct, frozen=True):
    """A row of version 1."""

    total: int = 0


class Levelled(Total, frozen=True):
    """A row of version 2."""

    level: int = 0


class Count(msgspec.Struct, frozen=True):
    """How many sales a window has."""

    sales: int = 0


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals of version 1, windows, and pairs."""
    _described(streams, Total)


def levelled(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals of version 2; the rest is as it was."""
    _described(streams, Levelled)


def more(streams: StreamsBuilder, _: AppSettings) -> None:
    """One store more."""
    _described(streams, Total)
    streams.stream("seeded-sales", int).group_by_key().count(store="counts")


def _described(streams: StreamsBuilder, rows: type[Total]) -> None:
    def plus(_: str, row: Total, amount: int) -> Total:
        total = row.total + amount
        return Total(total) if rows is Total else Levelled(total, total // 10)

    sales = streams.stream("seeded-sales", int)
    by_last = sales.select_key(lambda _, amount: str(amount % 10))
    by_last.group_by_key().aggregate(rows, with_key(plus), store=Store("totals", rows))
    sales.group_by_key().windowed_by(tumbling(timedelta(minutes=1))).aggregate(
        Count, lambda count, _: Count(count.sales + 1), store=Store("windows", Count, retention=timedelta(hours=1))
    )
    returns = streams.stream("seeded-returns", int)
    pairs = sales.left_join(returns, lambda sale, back: f"{sale}-{back}", JoinWindows.of(timedelta(minutes=2)),
                            values=str, named="pairs")  # fmt: skip
    pairs.to("seeded-pairs")


class Counting:
    """Counts the records of its task by their value's last digit, whatever their key is."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Opens its store."""
        self.counts = context.store("digits")

    def process(self, _: str, amount: int, __: int) -> None:
        """Counts a record."""
        digit = str(amount % 10)
        self.counts.put(digit, (self.counts.get(digit) or 0) + 1)


def by_task(streams: StreamsBuilder, _: AppSettings) -> None:
    """Counts of each task, so that a key has a row in each partition."""
    streams.add_store(Store("digits", int))
    sales = streams.stream("seeded-sales", int)
    sales.select_key(lambda _, amount: f"card {amount}").repartition().process(Counting, stores=["digits"], values=int)


def in_tens(key: bytes, value: bytes) -> list[StoreRecord]:
    """Gives rows the same key."""
    return [(b"ten", value)]


def with_level(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 1 to version 2."""
    total = orjson.loads(value)["total"]
    return [(key, orjson.dumps({"total": total, "level": total // 10}))]


def without_sevens(key: bytes, value: bytes) -> list[StoreRecord]:
    """What one row can't go through."""
    if key == b"7":
        raise ValueError("a secret")
    return [(key, value)]


LEVEL = StoreMigration("level", "totals", "Adds the level.", 2, f"{HERE}:with_level", f"{HERE}:levelled")
ODD = replace(LEVEL, name="odd", convert=f"{HERE}:without_sevens")
TENS = StoreMigration("tens", "digits", "One key for all.", 2, f"{HERE}:in_tens", changes_key=True)
MORE = replace(LEVEL, name="more", describe=f"{HERE}:more")


class Shop:
    """An app, and generations of it."""

    def __init__(self, run: SparkRun, spark: SparkSession) -> None:
        self.run = run
        self.spec, self._spark = run.context.spec, spark
        self.journal = first_journal(self.spec)

    def sell(self, first: int, last: int, *, at_ms: int = NOW_MS) -> None:
        """Sales, and a return of every third."""
        sales = [(b"k%d" % (n % 5), b"%d" % n, at_ms + n * 1_000) for n in range(first, last)]
        self.run.produce("seeded-sales", sales)
        self.run.produce("seeded-returns", sales[::3])

    def seeded(self, *names: str, partitions: int | None = None, since: str | None = None) -> Seed:
        """Plans a generation of the first, and makes what it begins with."""
        migrations = [f"{HERE}:{name}" for name in names]
        journal = steps.planned(first_journal(self.spec), self.spec, migrations, partitions, since)
        seeding = Seeding(self.spec, self.run.settings, journal.generation(1), journal.generation(2))
        made = seeding.from_live(self._spark) if since is None else seeding.from_input()
        self.journal = steps.seeded(journal, 2, made.start, made.rows)
        return made

    def caught_up(self) -> Journal:
        """Lets both generations handle all that waits."""
        for generation in self.journal.generations.values():
            self._run(generation)
        return self.journal

    def compared(self) -> ComparisonVerdict:
        """What the two hold."""
        journal, folder = self.caught_up(), self.run.settings.run_dir / "compared"
        kafka = self.run.settings.kafka
        return compare_generations(kafka, folder, journal.generation(1), journal.generation(2))

    def _run(self, generation: Generation) -> None:
        settings = self.run.settings.in_generation(generation.number)
        checkpoint = BatchCheckpoint(settings.checkpoint_dir(self.spec.name))
        spec = spec_of(self.spec, generation)
        context = StreamContext(spec, self._spark.sparkContext, settings, checkpoint, generation=generation)
        assert spec.describe is not None
        stream = open_topology_stream(context, spec.describe)
        query = stream.query(context).start()
        run_query(query, context)


@pytest.fixture
def shop(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Shop:
    run = SparkRun("seeded", topology, broker, spark_session, tmp_path / "run")
    run.make_topics({"seeded-sales": 2, "seeded-returns": 2, "seeded-pairs": 2})
    return Shop(run, spark_session)


def test_a_generation_goes_on_from_rows_buffers_and_times_as_they_were(shop: Shop) -> None:
    with pytest.raises(GenerationPendingError, match="has no finished batch"):
        shop.seeded("LEVEL")
    shop.sell(0, 100)
    shop.caught_up()
    with pytest.raises(UnconvertibleRowsError, match=r"^1 rows of totals can't be converted \(1 x ValueError\)"):
        shop.seeded("ODD")
    with pytest.raises(GenerationRefusedError, match="store counts of generation 2 has nothing to begin with"):
        shop.seeded("MORE")
    shop.seeded("LEVEL")
    # Whoever had no time of its own would take these, and would wait for partners of the sales before.
    shop.sell(0, 20, at_ms=NOW_MS - 10 * MINUTE_MS)
    shop.sell(100, 140)
    told = shop.compared()
    assert (told.holds, told.unexpected + told.missing + told.differing) == (True, 0), told
    pairs = {store for store in shop.journal.generation(2).topics if store.startswith("pairs-")}
    assert pairs == {"pairs-left", "pairs-right", "pairs-alone"}
    assert told.same > 100
    rows = shop.run.rows("seeded-totals-changelog-g2")
    assert orjson.loads(rows[b"3"]).keys() == {"total", "level"}
    # It was silent all the time.
    assert len({value for _, _, value, _ in shop.run.records("seeded-pairs")}) == len(shop.run.records("seeded-pairs"))


def test_changelogs_that_have_lost_records_are_not_copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sell(0, 20)
    shop.caught_up()
    journal = steps.planned(first_journal(shop.spec), shop.spec, [])
    seeding = Seeding(shop.spec, shop.run.settings, journal.generation(1), journal.generation(2))
    topic = "seeded-totals-changelog"
    end = Topics(shop.run.settings.kafka).end([topic])
    reached = {partition: offset for _, partition, offset in end}
    snapshot = SnapshotManifest("totals", "seeded", 1, 1, topic, reached, Position(), 0, {}, "test", 1)
    snapshots = {"totals": snapshot}
    monkeypatch.setattr(seeding_module, "newest_manifest", lambda path: snapshots.get(path.name))
    seeding.check()
    snapshots["totals"] = replace(snapshot, changelog_offsets=reached | {1: reached[1] + 1})
    with pytest.raises(GenerationRefusedError, match=rf"{topic} ends at {reached[1]} in partition 1, .* lost records"):
        seeding.check()
    snapshots["totals"] = replace(snapshots["totals"], changelog_topic="seeded-totals-changelog-g7")
    seeding.check()
    with monkeypatch.context() as patch:
        begun = TopicBounds(Position({topic: {0: 0, 1: 3}}), Position({topic: {0: 9, 1: 9}}))
        patch.setattr(seeding._topics, "bounds", lambda _: begun)
        with pytest.raises(GenerationRefusedError, match=f"{topic} begins at 3 in partition 1: .* were deleted"):
            seeding.check()
    CheckpointOwner("seeded", 1, topic_ids={topic: "another"}).write(shop.run.checkpoint.path)
    with pytest.raises(UnusableCheckpointError, match=f"{topic} was deleted since generation 1"):
        seeding.check()


@pytest.mark.long("test_catalog.py has where it begins, test_handover.py a played backfill")
def test_a_backfill_reads_the_input_from_its_beginning_or_from_a_time(shop: Shop) -> None:
    shop.sell(0, 60)
    shop.caught_up()
    made = shop.seeded(since="beginning")
    assert (made.rows, {offset for *_, offset in made.start}) == (0, {0})
    told = shop.compared()
    assert (told.holds, told.missing) == (True, 0), told
    since = "2023-11-14T22:13:50Z"  # 30 s after the first sale
    made = shop.seeded(since=since)
    assert 0 < sum(offset for *_, offset in made.start) <= 40
    told = shop.compared()
    assert not told.holds


def test_what_is_behind_a_repartition_topic_is_filled_from_the_input_alone(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("seeded_groups", grouped_app.topology, broker, spark_session, tmp_path / "run")
    run.make_topics({grouped_app.ITEMS: 2, grouped_app.TOTALS: 2})
    shop = Shop(run, spark_session)
    run.produce(grouped_app.ITEMS, [(b"item %d" % (n % 7), b"%d" % n, NOW_MS + n) for n in range(60)])
    shop.caught_up()
    copied = steps.planned(shop.journal, shop.spec, [])
    with pytest.raises(GenerationRefusedError, match=r"its rows can't be copied\. .*: `seed --from beginning`"):
        Seeding(shop.spec, run.settings, copied.generation(1), copied.generation(2)).check()
    shop.seeded(since="beginning")
    checkpoint = BatchCheckpoint(
        run.settings.in_generation(shop.journal.generation(2).number).checkpoint_dir(shop.spec.name)
    )
    assert checkpoint.committed_position().offsets["seeded_groups-gen-2-grouped-items.table.group-by-repartition"] == {
        0: 0,
        1: 0,
    }
    found = shop.compared()
    assert (found.holds, found.same) == (True, 7 + grouped_app.GROUPS), found


def test_rows_of_one_key_in_several_partitions_stay_apart_or_are_refused(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("seeded_digits", by_task, broker, spark_session, tmp_path / "run")
    run.make_topics({"seeded-sales": 2, "seeded-returns": 2})
    shop = Shop(run, spark_session)
    shop.sell(0, 100)
    shop.caught_up()
    log, new = "seeded_digits-digits-changelog", "seeded_digits-digits-changelog-g2"
    had = {(partition, key or b""): value or b"" for partition, key, value, _ in run.records(log)}
    assert len(had) > len({key for _, key in had}), "keys are in both partitions"
    with pytest.raises(GenerationRefusedError, match=r"rows of digits aren't in the partition of their key"):
        shop.seeded(partitions=3)
    with pytest.raises(GenerationRefusedError, match="1 keys of digits would have several rows"):
        shop.seeded("TENS")
    with pytest.raises(GenerationRefusedError, match=r"rows of digits aren't in the partition of their key"):
        from_table(shop, had, partitions=3)
    assert Topics(run.settings.kafka).missing([new]) == [new], "nothing was made"
    assert shop.seeded().rows == len(had)
    assert {(partition, key): value for partition, key, value, _ in run.records(new)} == had
    told = shop.compared()
    assert (told.holds, told.same) == (True, len(had)), told


def from_table(shop: Shop, rows: dict[tuple[int, bytes], bytes], partitions: int) -> None:
    """Seeds a generation as after a loss of the changelog, with the rows that a table has."""
    names, kinds = ("_partition", "_key", "_value", "_timestamp_ms"), (pa.int32(), pa.binary(), pa.binary(), pa.int64())
    columns = zip(*((*place, value, NOW_MS) for place, value in rows.items()), strict=True)
    table = pa.record_batch(list(map(pa.array, columns, kinds)), names=list(names))
    journal = steps.planned(first_journal(shop.spec), shop.spec, [], partitions)
    seeding = Seeding(shop.spec, shop.run.settings, journal.generation(1), journal.generation(2))
    batch = CommittedBatch.of(shop.run.checkpoint, 1)
    assert batch is not None
    seeding.from_rows({"digits": lambda: iter([table])}, batch, {})
