"""An app whose changelog is lost goes on from its tables, on real Spark and Kafka, and has what it had."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.apps.topology_app import own_topics, slots_after
from storekeeper.changelog.position import Position
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.stream import StreamContext
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.stream import open_topology_stream
from storekeeper.generations.catalog import first_journal, spec_of
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation
from storekeeper.generations.recovery import Recovering
from storekeeper.generations.seeding import Seeding
from storekeeper.node.cluster.aliases import Alias
from storekeeper.snapshots.job import Snapshot, progress_after
from storekeeper.topology import Store, StreamsBuilder, tumbling, with_key
from tests.engine.spark_run import SparkRun, run_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

APP, SALES = "recovered", "recovered-sales"
NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
CHANGELOGS = ("recovered-totals-changelog", "recovered-windows-changelog")


class Total(msgspec.Struct, frozen=True):
    """A row."""

    total: int = 0


class Count(msgspec.Struct, frozen=True):
    """How many sales a window has."""

    sales: int = 0


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals by last digit, behind a shuffle, and windows by key."""
    sales = streams.stream(SALES, int)
    sales.select_key(lambda _, amount: str(amount % 10)).group_by_key().aggregate(
        Total, with_key(lambda _, row, amount: Total(row.total + amount)), store=Store("totals", Total)
    )
    sales.group_by_key().windowed_by(tumbling(timedelta(minutes=1))).aggregate(
        Count, lambda count, _: Count(count.sales + 1), store=Store("windows", Count, retention=timedelta(hours=1))
    )


class Shop:
    """The app, its tables, and the steps of its generations."""

    def __init__(self, run: SparkRun, spark: SparkSession) -> None:
        self.run, self.spec, self._spark = run, run.context.spec, spark
        self.aliases: list[Alias] = []
        self.publish: Any = self.aliases.append
        self.topics = Topics(run.settings.kafka)

    def recovering(self) -> Recovering:
        controller = GenerationController(
            self.spec, self.run.settings, SystemClock(), lambda _: None, self._publish,
            lambda *_: pytest.fail("nothing is compared"), self.topics.committed_end,
        )  # fmt: skip
        return Recovering(controller, self.topics)

    def _publish(self, alias: Alias) -> None:
        self.publish(alias)

    def sell(self, first: int, last: int, *, at_ms: int = NOW_MS) -> None:
        self.run.produce(SALES, [(b"k%d" % (n % 5), b"%d" % n, at_ms + n * 1_000) for n in range(first, last)])

    def live(self) -> Generation:
        return (self.recovering().controller.read()).live_generation

    def handle(self) -> None:
        """Starts the live generation as its process does, and lets it handle all that waits."""
        generation = self.live()
        settings, spec = self.run.settings.in_generation(generation.number), spec_of(self.spec, generation)
        checkpoint = BatchCheckpoint(settings.checkpoint_dir(APP))
        context = StreamContext(spec, self._spark.sparkContext, settings, checkpoint, generation=generation)
        assert spec.describe is not None
        run_query(open_topology_stream(context, spec.describe).query(context).start(), context)
        # As its next start claims the checkpoint.
        earlier = CheckpointOwner.read(checkpoint.path)
        slots = slots_after(spec, settings, {} if earlier is None else earlier.slots)
        ids = self.topics.ids([SALES, *own_topics(spec, settings, slots)])
        CheckpointOwner(APP, generation.number, checkpoint.query_id(), ids, slots=slots).write(checkpoint.path)

    def snapshot(self, *names: str) -> None:
        generation = self.live()
        settings, spec = self.run.settings.in_generation(generation.number), spec_of(self.spec, generation)
        checkpoint = BatchCheckpoint(settings.checkpoint_dir(APP))
        batch = CommittedBatch.of(checkpoint, generation.number)
        assert batch is not None
        progress = progress_after(settings.kafka, checkpoint, APP, batch)
        assert progress, "the tasks have just run"
        for store in spec.stores:
            if not names or store.name in names:
                Snapshot(settings, store, spec, now_ms=SystemClock().now_ms()).take(batch, progress)

    def rows(self) -> dict[str, dict[bytes, bytes]]:
        return {store.name: self.run.rows(self._topic(store)) for store in self.spec.stores}

    def _topic(self, store: StoreSpec) -> str:
        return self.live().topics[store.name]


@pytest.fixture
def shop(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Shop:
    run = SparkRun(APP, topology, broker, spark_session, tmp_path / "run")
    run.make_topics({SALES: 2})
    return Shop(run, spark_session)


class _KilledError(BaseException):
    pass


def killed(*_: object) -> None:
    raise _KilledError


def test_an_app_without_its_changelog_has_again_what_it_had(
    shop: Shop, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(0, 100)
    shop.handle()
    shop.snapshot()
    # Later input, some of it late: who had no stream time would take it.
    shop.sell(0, 20, at_ms=NOW_MS - 70 * MINUTE_MS)
    shop.sell(100, 140)
    shop.handle()
    had = shop.rows()
    with pytest.raises(GenerationRefusedError, match="nothing of generation 1 of recovered is lost"):
        shop.recovering().take(accept_loss=True)
    broker.delete_topic(CHANGELOGS[0])

    planned = shop.recovering().plan(first_journal(shop.spec)).answer()
    assert (planned["generation"], planned["losses"]) == (2, []), planned
    assert CHANGELOGS[0] in planned["why"]
    assert planned["input"][SALES].keys() == {"0", "1"}
    with monkeypatch.context() as patch:
        patch.setattr(Seeding, "_begin", killed)
        with pytest.raises(_KilledError):
            shop.recovering().take(accept_loss=False)
    shop.publish = killed
    with pytest.raises(_KilledError):
        shop.recovering().take(accept_loss=False)
    shop.publish = shop.aliases.append
    journal = shop.recovering().take(accept_loss=False)
    assert journal.live == 2
    assert {alias.topic for alias in shop.aliases} == {
        "recovered-totals-changelog-g2",
        "recovered-windows-changelog-g2",
    }

    shop.handle()
    assert shop.rows() == had, "the input since the tables was read again, from the tasks' times on"
    shop.snapshot()
    shop.sell(140, 150)
    shop.handle()
    assert shop.rows()["totals"] != had["totals"]
    assert shop.recovering().take(accept_loss=False) == journal, "a repeated command does nothing"


def test_what_the_input_has_lost_is_named(shop: Shop, broker: Broker) -> None:
    shop.sell(0, 60)
    shop.handle()
    shop.snapshot()
    before = shop.recovering().controller
    reached = BatchCheckpoint(
        before.settings.in_generation(shop.live().number).checkpoint_dir(APP)
    ).committed_position()
    shop.sell(60, 100)
    shop.handle()
    broker.delete_topic(CHANGELOGS[1])
    gone = {partition: (reached.offset(SALES, partition) or 0) + 2 for partition in range(2)}
    shop.topics.delete_records(Position({SALES: gone}))
    with pytest.raises(GenerationRefusedError, match=r"were deleted and are lost.*--accept-loss"):
        shop.recovering().take(accept_loss=False)
    journal = shop.recovering().take(accept_loss=True)
    assert dict(journal.live_generation.start.offsets[SALES]) == gone
    shop.handle()
    assert shop.rows()["totals"]


def test_stores_whose_tables_end_at_different_batches_go_back_to_one(
    shop: Shop, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(0, 60)
    shop.handle()
    shop.snapshot()
    shop.sell(60, 100)
    shop.handle()
    had = shop.rows()
    shop.snapshot("totals")
    recovering, journal = shop.recovering(), first_journal(shop.spec)
    assert recovering.what_is_lost(journal) is None
    with monkeypatch.context() as patch:
        patch.setattr(shop.topics, "ids", lambda names: dict.fromkeys(names, "another"))
        assert "topic recovered-sales was deleted and recreated" in (recovering.what_is_lost(journal) or "")
    with monkeypatch.context() as patch:
        patch.setattr(shop.topics, "end", lambda _: Position({SALES: {0: 1, 1: 1}}))
        assert "recovered-sales partition 0 ends at 1, and was read to" in (recovering.what_is_lost(journal) or "")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointOwner, "read", lambda _: None)
        assert recovering.what_is_lost(journal) == "the checkpoint of generation 1 of recovered is lost"
    broker.delete_topic(CHANGELOGS[0])
    (loss,) = shop.recovering().plan(first_journal(shop.spec)).losses
    assert loss.startswith("the table of totals is at a later batch")
    shop.recovering().take(accept_loss=True)
    shop.handle()
    assert shop.rows() == had
