"""When a node trusts its own replica, and where it sends those who ask for what it doesn't hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from state.changelog.restore import Role
from state.clock import ManualClock
from state.cluster.aliases import Alias
from state.cluster.member import ReplicaReport
from state.cluster.routing import Tolerance, routing_table
from state.cluster.view import Member
from state.errors import UnknownStoreError
from state.query.assignment import Assignment
from state.query.catalog import Catalog, StoreMovedError
from state.query.definitions import StoreDefinition
from state.query.problems import problem_of
from state.replicas.places import RocksDBPlace
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId, ReplicaState
from tests.state.replicas.recording import RecordingListener

REPLICA = ReplicaId("s", 0)


def made(tmp_path: Path, *, other_serves: bool = True) -> tuple[Catalog, Replica]:
    clock = ManualClock(1000)
    catalog = Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")}, acceptable_staleness_ms=2000)
    place = RocksDBPlace(tmp_path, clock)
    replica = Replica(REPLICA, "t", place=place, clock=clock, listener=RecordingListener())
    report = ReplicaReport(REPLICA, Role.STANDBY, ReplicaState.RUNNING, other_serves, 1, 0, 0)
    members = [Member("a", "http://a", heard=True), Member("b", "http://b", heard=True, replicas=(report,))]
    catalog.follow(routing_table(Assignment(("a", "b"), {"s": 1}, 1), members, Tolerance()), {REPLICA: replica})
    return catalog, replica


def test_a_replica_that_is_known_to_be_fresh_answers(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path)
    replica.tracker.saw_end(replica.tracker.question(10.0), 0, 0)
    assert catalog.answers_best(replica, 11.9)


def test_after_a_pause_of_the_process_others_are_asked_first(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path)
    replica.tracker.saw_end(replica.tracker.question(10.0), 0, 0)
    assert not catalog.answers_best(replica, 70.0)


def test_nobody_is_asked_who_cannot_know_better(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path, other_serves=False)
    assert catalog.answers_best(replica, 70.0)
    catalog, replica = made(tmp_path)
    catalog.nobody_is_fresher(70.0)
    assert catalog.answers_best(replica, 70.5)
    assert not catalog.answers_best(replica, 71.5)


def test_whoever_asks_for_what_is_not_held_is_told_who_has_it(tmp_path: Path) -> None:
    catalog, _ = made(tmp_path)
    problem = problem_of(catalog.not_held("s", 0))
    assert (problem.status, problem.details) == (421, {"holders": ["b"], "epoch": catalog.epoch})


PARTS = {"s-1": "log-1", "s-2": "log-2"}
SPLIT_UP = Alias("s", 2, "log-1", "t", 7, parts=PARTS)
VARIANTS = {name: f"{name}@{topic}" for name, topic in PARTS.items()}


def split(tmp_path: Path, alias: Alias, serving: Mapping[str, str]) -> Catalog:
    """One that was configured with `s` alone, and has heard an alias."""
    catalog, _ = made(tmp_path)
    catalog.heed({"s": alias})
    topics = {"s": "t", **{variant: PARTS[name] for name, variant in VARIANTS.items()}}
    catalog.want({variant: topics[variant] for variant in serving.values()})
    assignment = Assignment(("a", "b"), dict.fromkeys(serving.values(), 1), 1)
    members = [Member("a", "http://a", heard=True), Member("b", "http://b", heard=True)]
    catalog.follow(routing_table(assignment, members, Tolerance()), {}, serving)
    return catalog


def test_parts_are_stores_as_the_one_that_they_are_made_of(tmp_path: Path) -> None:
    catalog = split(tmp_path, SPLIT_UP, {"s": "s", **VARIANTS})
    assert catalog.names == ["s", "s-1", "s-2"]
    assert catalog.definition(VARIANTS["s-2"]) == StoreDefinition("s-2", "log-2")
    assert (catalog.generation(VARIANTS["s-2"]), catalog.generation("s")) == (2, None)
    assert [catalog.origin(name) for name in ("s", *VARIANTS.values(), "other")] == ["s", "s", "s", "other"]
    assert catalog.written_with(VARIANTS["s-1"]) == catalog.written_with(VARIANTS["s-2"]) != "s"
    assert catalog.written_with("s") == "s"
    assert catalog.elsewhere == {name.encode(): variant.encode() for name, variant in VARIANTS.items()}
    assert catalog.stores_of("a") == ["s", "s-1", "s-2"]
    assert catalog.is_complete


def test_whoever_asks_for_what_was_split_and_retired_is_told_where_its_rows_are(tmp_path: Path) -> None:
    catalog = split(tmp_path, replace(SPLIT_UP, previous_topic=None, former=("s",)), VARIANTS)
    assert catalog.names == ["s-1", "s-2"]
    assert catalog.is_complete
    with pytest.raises(StoreMovedError, match="its rows are in s-1, s-2") as caught:
        catalog.definition("s")
    problem = problem_of(caught.value)
    assert (problem.status, problem.details) == (404, {"stores": ["s-1", "s-2"]})
    assert catalog.definition(VARIANTS["s-1"]).topic == "log-1"


def test_parts_that_were_merged_and_retired_are_told_of_too(tmp_path: Path) -> None:
    merged = Alias("s", 3, "t", None, 9, former=("s-1", "s-2"))
    catalog = split(tmp_path, merged, {"s": "s"})
    with pytest.raises(StoreMovedError, match="its rows are in s;"):
        catalog.partition("s-2", b"k")
    with pytest.raises(UnknownStoreError, match="there is no store 's-3' here"):
        catalog.partition("s-3", b"k")
