"""What the tasks of a new generation begin with."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from confluent_kafka import Producer

from harness.broker import Broker
from storekeeper.engine.markers import Marker
from storekeeper.generations.errors import GenerationRefusedError, NotesGoneError
from storekeeper.generations.seed_rows import joined, live_progress, peers_of, progress_of
from storekeeper.names import markers_topic
from storekeeper.topology import ProcessorContext, Store, StreamsBuilder
from storekeeper.topology.layout import Layout
from storekeeper.topology.slots import partitions_by_slot, slot_of

QUERY = "3d1f"


def layout(app: str, describe: Callable[[StreamsBuilder], object]) -> Layout:
    streams = StreamsBuilder(app)
    describe(streams)
    return Layout(streams.build().plan({"progress-events": 3}))


def by_value(streams: StreamsBuilder) -> None:
    events = streams.stream("progress-events", int)
    events.select_key(lambda _, value: str(value)).group_by_key().count(store="totals")


def filtered(streams: StreamsBuilder) -> None:
    events = streams.stream("progress-events", int)
    events.filter(lambda _, value: value > 0).select_key(lambda _, value: str(value)).group_by_key().count(
        store="totals"
    )


def test_a_sub_topology_takes_the_place_of_the_one_with_its_stores_or_its_topics() -> None:
    live, new = layout("app", by_value), layout("app-gen-2", filtered)
    first, second = new.topology.sub_topologies
    assert slot_of(second, {}) not in partitions_by_slot(live)
    assert peers_of(first, live) == [live.topology.sub_topologies[0]]
    assert peers_of(second, live) == [live.topology.sub_topologies[1]]


class Both:
    """Has both stores in its tasks."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Opens them."""
        self.stores = context.store("sums"), context.store("counts")

    def process(self, key: str, value: int, _: int) -> None:
        """Keeps a record's value in both."""
        for store in self.stores:
            store.put(key, value)


def apart(streams: StreamsBuilder) -> None:
    for name in ("sums", "counts"):
        moved = streams.stream("progress-events", int).select_key(lambda _, value: str(value))
        moved.repartition(named=f"by-{name}").group_by_key().count(store=name)


def together(streams: StreamsBuilder) -> None:
    for name in ("sums", "counts"):
        streams.add_store(Store(name, int))
    moved = streams.stream("progress-events", int).select_key(lambda _, value: str(value))
    moved.repartition().process(Both, stores=["sums", "counts"], values=int)


def test_tasks_where_stores_meet_go_on_where_all_of_those_before_were() -> None:
    live, new = layout("app", apart), layout("app-gen-2", together)
    first, *kept = live.topology.sub_topologies
    assert [peers_of(sub, live) for sub in new.topology.sub_topologies] == [[first], kept]
    found = joined([
        {0: progress(task=5, sums=5), 1: progress(task=9)},
        {0: progress(task=8, counts=8), 2: progress(task=1)},
    ])  # fmt: skip
    told = {at: orjson.loads(each)["times"] for at, each in found.items()}
    assert told == {0: {"task": 8, "sums": 5, "counts": 8}, 1: {"task": 9}, 2: {"task": 1}}


def progress(**times: int) -> bytes:
    return orjson.dumps({"times": times, "emitted": {}, "timers": {}})


def test_tasks_go_on_where_those_of_their_partitions_were() -> None:
    before = {0: progress(task=5), 2: progress(task=9)}
    assert progress_of(before, 3, moved=False) == before


def test_tasks_that_get_keys_of_all_are_as_far_as_the_first_of_them() -> None:
    found = progress_of({0: progress(task=5, join=8), 1: progress(task=9)}, 4, moved=True)
    assert [orjson.loads(found[at]) for at in range(4)] == [{"times": {"task": 9, "join": 8}}] * 4
    assert progress_of({}, 4, moved=True) == {}


@pytest.mark.parametrize("told", [{"emitted": {"window": 3}}, {"timers": {"clock": 60}}])
def test_places_of_windows_and_timers_can_not_be_put_together(told: dict[str, object]) -> None:
    with pytest.raises(GenerationRefusedError, match="keys can't move to other tasks"):
        progress_of({0: orjson.dumps({"times": {}, **told})}, 4, moved=True)


@pytest.mark.broker
def test_the_progress_after_a_batch_is_that_of_each_tasks_newest_marker_before_it(broker: Broker) -> None:
    live = layout("progress", by_value)
    plain, shuffled = (slot_of(sub, {}) for sub in live.topology.sub_topologies)
    for slot in (plain, shuffled):
        broker.create_topic(markers_topic("progress", 1, slot), 3)
    write(broker, plain, 0, (QUERY, 3, 30), (QUERY, 4, 40), (QUERY, 5, 50))
    write(broker, plain, 1, (QUERY, 2, 20), ("another", 4, 41))
    assert told(broker, live) == {plain: {0: progress(task=40), 1: progress(task=20)}, shuffled: {}}
    write(broker, shuffled, 2, (QUERY, 5, 50))
    with pytest.raises(NotesGoneError):
        told(broker, live)


def told(broker: Broker, live: Layout) -> dict[str, dict[int, bytes]]:
    found = live_progress(broker.kafka, "progress", 1, partitions_by_slot(live), query_id=QUERY, batch_id=4)
    return {slot: dict(by_partition) for slot, by_partition in found.items()}


def write(broker: Broker, slot: str, partition: int, *markers: tuple[str, int, int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for query, batch, time_ms in markers:
        content = Marker(batch, {}, {}, progress(task=time_ms)).encode()
        producer.produce(markers_topic("progress", 1, slot), content, query.encode(), partition)
    assert producer.flush(30) == 0
