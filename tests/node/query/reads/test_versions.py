"""Versioned stores and stores with a TTL, from the task that writes them to the node that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.node.query.reads.versions import version_at, versions
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.topology import Store, StoreKind, StreamsBuilder
from storekeeper.topology.driver import TopologyTestDriver
from storekeeper.topology.operators.process import ProcessorContext
from tests.node.query.cluster import Cluster

MS = timedelta(milliseconds=1)
HISTORY_MS = 20
Put = tuple[str, int | None, int]


class Putting:
    """Puts each record's value at its time; None deletes."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.store = context.store("prices")

    def process(self, key: str, value: int | None, timestamp_ms: int) -> None:
        self.store.put(key, value, timestamp_ms)


def putting(store: Store[int]) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    streams.add_store(store)
    streams.stream("in", int | None).process(Putting, stores=["prices"], values=int)
    return TopologyTestDriver(streams.build())


def run(driver: TopologyTestDriver, puts: Iterable[Put]) -> None:
    for put in puts:
        driver.append("in", *put)
    driver.run()


class Following:
    """One node with one partition, which follows a driver's changelog record by record."""

    def __init__(self, kind: str) -> None:
        self.cluster = Cluster(nodes="a", partitions=1, stores=f"prices=p-log{kind}")
        self.reached = 0

    @property
    def replica(self) -> Replica:
        return self.cluster.nodes["a"].replicas[ReplicaId("prices", 0)]

    def follow(self, driver: TopologyTestDriver, after_each: Callable[[], None] = lambda: None) -> None:
        for key, value in driver.changelog("prices")[self.reached :]:
            self.cluster.write_to(ReplicaId("prices", 0), key, value)
            self.reached += 1
            after_each()

    def get(self, path: str) -> Any:
        return asyncio.run(self.cluster.get("a", path)).json()


PUTS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9), st.integers(0, 80)), max_size=5)


@given(st.lists(PUTS, max_size=6))
@settings(max_examples=25)
def test_a_node_answers_as_of_each_time_of_the_history_as_the_app_does(batches: list[list[Put]]) -> None:
    check_against_the_app(batches)


@pytest.mark.long("test_versions.py tries 25")
@given(st.lists(PUTS, max_size=12))
@settings(max_examples=2000)
def test_a_node_answers_as_the_app_does_in_many_cases(batches: list[list[Put]]) -> None:
    check_against_the_app(batches)


def check_against_the_app(batches: list[list[Put]]) -> None:
    driver = putting(Store("prices", int, kind=StoreKind.VERSIONED, history=HISTORY_MS * MS))
    node = Following(":versioned")
    taken: dict[str, dict[int, int | None]] = {"a": {}, "b": {}}
    now_ms = -1

    def right(key: str, at_ms: int) -> int | None:
        return taken[key][max(times)] if (times := [time for time in taken[key] if time <= at_ms]) else None

    def no_version_answers_for_another_ones_time() -> None:
        for key, at_ms in ((key, at_ms) for key in "ab" for at_ms in range(0, 90, 7)):
            found = version_at(node.replica, key.encode(), at_ms)
            assert found is None or int(found.value) == right(key, at_ms)

    for batch in batches:
        for key, value, timestamp_ms in batch:
            if timestamp_ms >= now_ms - HISTORY_MS:
                taken[key][timestamp_ms] = value
            now_ms = max(now_ms, timestamp_ms)
        run(driver, batch)
        node.follow(driver)
        store = driver.store("prices")
        for key in "ab":
            for at_ms in range(max(now_ms - HISTORY_MS, 0), now_ms + 2):
                own, found = store.get(key, at_ms), version_at(node.replica, key.encode(), at_ms)
                assert (found and int(found.value)) == (own and own.value) == right(key, at_ms)
                if found is not None:
                    assert (found.timestamp_ms, found.valid_to_ms or -1) == own[1:]
            span = max(now_ms - HISTORY_MS, 0), 70
            history = [(int(one.value), one.timestamp_ms) for one in versions(node.replica, key.encode(), *span)]
            assert history == [record[:2] for record in reversed(store.history(key, *span))]
        no_version_answers_for_another_ones_time()


def test_while_old_versions_are_being_deleted_none_answers_for_another_ones_time() -> None:
    driver = putting(Store("prices", int, kind=StoreKind.VERSIONED, history=HISTORY_MS * MS))
    node = Following(":versioned")
    run(driver, [("a", 1, 0), ("a", 2, 5), ("a", None, 10), ("b", 1, 10)])
    node.follow(driver)
    seen = []
    run(driver, [("b", 2, 100)])
    node.follow(driver, lambda: seen.append([version_at(node.replica, b"a", at_ms) for at_ms in (7, 100)]))
    assert len(seen) == 4, "the new version of b and three deletions"
    for earlier, newest in seen:
        assert earlier is None or earlier.value == b"2"
        assert newest is None, "the key was deleted, and one of its earlier values showed"


def test_a_version_says_in_the_changelog_when_it_became_valid() -> None:
    driver = putting(Store("prices", int, kind=StoreKind.VERSIONED, history=HISTORY_MS * MS))
    node = Following(":versioned")
    run(driver, [("a", 1, 30), ("a", 2, 20)])
    node.follow(driver)
    (changes,) = driver._changelogs.values()
    assert [change.timestamp_ms for change in changes] == [30, 20]
    assert node.get("/state/keyvalue/prices/a") == {"key": "a", "value": 1, "timestamp_ms": 30}


def test_a_node_sends_on_a_time_of_1970_as_what_it_is() -> None:
    cluster = Cluster(nodes="ab", partitions=4, stores="prices=p-log:versioned")
    for node in "ab":
        for key in "stuvw":
            answer = asyncio.run(cluster.get(node, f"/state/keyvalue/prices/{key}?as_of=1970-01-01T05:37:40.131Z"))
            assert (answer.status_code, answer.json()["type"]) == (404, "urn:storekeeper:problem:unknown-key")


def test_the_rows_of_a_store_with_a_ttl_are_key_value_rows_and_none_has_expired() -> None:
    driver = putting(Store("prices", int, kind=StoreKind.TTL, ttl=10 * MS))
    node = Following("")
    run(driver, [("a", 1, 0), ("b", 2, 5)])
    node.follow(driver)
    assert node.get("/state/keyvalues/prices/all") == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    run(driver, [("c", 3, 10)])
    node.follow(driver)
    assert node.get("/state/keyvalues/prices/all") == [{"key": "b", "value": 2}, {"key": "c", "value": 3}]
    assert node.get("/state/keyvalue/prices/a")["status"] == 404
