"""The model, from heartbeats, replicas and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.client.readings import NodeLag
from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.ops.overview.model import App, LastVerdict, Overview, Placement, Process, Snapshot, nodes_of, stores_of
from storekeeper.ops.overview.tables import Severity, tables
from storekeeper.ops.supervisor_rpc import ProcessInfo
from storekeeper.quality.resolution import Action
from storekeeper.quality.verdict import Status
from tests.ops.overview.made_up import BEAT, NOW_MS, app, quarantined

LATER_MS = NOW_MS + 60_000


def process(state: str = "RUNNING", pid: int = 7) -> ProcessInfo:
    return ProcessInfo("pos", state, pid, NOW_MS - 90_000, 0)


def replica(store: str, partition: int, serving: bool, lag: int | None, topic: str = "t") -> dict[str, object]:
    return {"store": store, "partition": partition, "serving": serving, "offset_lag": lag, "topic": topic}


def test_an_app_is_what_it_says_while_it_says_something() -> None:
    assert (app().state, app().problem, app().lag_records) == ("RUNNING", None, 7)
    silent = app(at_ms=LATER_MS)
    assert (silent.state, silent.problem) == ("SILENT", "no heartbeat for 61 s")
    set_back = app(at_ms=NOW_MS - 3_600_000)
    assert (set_back.state, set_back.problem) == ("SILENT", "no heartbeat since the clock was set back")
    assert app(state=AppState.STOPPED, at_ms=LATER_MS).state == "STOPPED"
    failed = app(state=AppState.FAILED, error="no topic", at_ms=LATER_MS)
    assert (failed.state, failed.problem) == ("FAILED", "failed: no topic")


@pytest.mark.parametrize(
    ("told", "state", "problem"),
    [
        (process(), "RUNNING", None),
        (process(pid=8), "STARTING", "starting"),
        (process("BACKOFF", 0), "BACKOFF", "backoff"),
        (process("STOPPED", 0), "STOPPED", "stopped"),
    ],
)
def test_a_heartbeat_counts_only_for_the_process_that_wrote_it(
    told: ProcessInfo, state: str, problem: str | None
) -> None:
    assert (app(process=told).state, app(process=told).problem) == (state, problem)


def test_an_app_without_a_heartbeat_starts_or_is_down() -> None:
    assert (App("pos", NOW_MS, None).state, App("pos", NOW_MS, None).problem) == ("DOWN", "down")
    starting = App("pos", NOW_MS, None, process())
    assert (starting.state, starting.problem) == ("STARTING", "no heartbeat yet")


def test_the_last_batch_is_a_batch_and_not_an_idle_moment() -> None:
    assert app().last_batch_age_ms == 60_000
    restarted = app(batch_id=None, last_batch_ms=None)
    assert (restarted.last_batch_age_ms, restarted.up_ms) == (None, 90_000)


def test_an_app_that_does_not_run_reads_nothing() -> None:
    assert app().rows_per_second == 12.5
    assert app(at_ms=LATER_MS).rows_per_second == 0
    assert app(state=AppState.STOPPED).rows_per_second == 0


def test_an_app_that_restores_says_how_far_it_is_and_how_long_it_takes() -> None:
    assert app().restoring is None
    one = {"store": "rewards", "partition": 0, "done": 10, "total": 100, "eta_s": 9.4}
    two = {"store": "rewards", "partition": 1, "done": 40, "total": 100, "eta_s": 2.0}
    assert app(restoring=(one, two)).restoring == "restores 2 store partitions: 25 %, 9 s left"
    assert app(restoring=(one, two), at_ms=LATER_MS).restoring is None, "it has said nothing for long"
    assert app(restoring=(two,)).restoring == "restores 1 store partition: 40 %, 2 s left"
    assert app(restoring=(two,), state=AppState.STOPPED).restoring is None
    waits = {"store": "rewards", "partition": 2, "done": 0, "total": 0, "eta_s": 0.0, "awaits": "rewards-changelog-2"}
    told = "waits for an open transaction in rewards-changelog-2 to end (a clean-up?)"
    assert app(restoring=(one, waits)).restoring == told


def test_an_app_that_has_not_looked_yet_has_not_caught_up() -> None:
    assert app(offsets={}).lag_records is None
    assert app(latest_offsets={}).lag_records is None
    assert app(latest_offsets=BEAT.offsets).lag_records == 0


def test_a_store_is_what_all_nodes_hold_of_it() -> None:
    lags = [
        NodeLag("http://a", "a", [replica("rewards", 0, True, 0), replica("rewards", 1, False, 40)], None),
        NodeLag("http://b", "b", [replica("rewards", 0, True, 3), replica("prices", 0, True, None, "p")], None),
    ]
    listed: list[dict[str, object]] = [
        {"store": "rewards", "kind": "keyvalue", "topic": "t"},
        {"store": "prices", "kind": "keyvalue", "topic": "p"},
        {"store": "alone", "kind": "global", "topic": "g"},
    ]
    taken = {"rewards": Snapshot(NOW_MS - 5000, 9)}
    alone, prices, rewards = stores_of(listed, lags, snapshots=taken, placement=Placement(), now_ms=NOW_MS)
    assert (rewards.partitions, rewards.replicas, rewards.serving, rewards.lag_records) == (2, 3, 2, 40)
    assert (rewards.snapshot_age_ms, rewards.snapshot_rows) == (5000, 9)
    assert (prices.replicas, prices.lag_records, prices.snapshot_age_ms) == (1, None, None)
    assert (alone.replicas, alone.serving) == (0, 0)


def test_a_store_is_what_is_held_of_the_changelog_that_answers_for_it() -> None:
    old = [replica("rewards", 0, True, 0), replica("rewards", 1, True, 0)]
    new = [replica("rewards@t-g2", number, True, 0, "t-g2") for number in range(3)]
    listed = [{"store": "rewards", "kind": "keyvalue", "topic": "t-g2"}]
    lags = [NodeLag("http://a", "a", [*old, *new], None)]
    (rewards,) = stores_of(listed, lags, snapshots={}, placement=Placement(), now_ms=NOW_MS)
    assert (rewards.partitions, rewards.replicas, rewards.serving) == (3, 3, 3)


def test_replicas_of_a_node_that_hangs_are_missed_and_it_is_called_by_its_name() -> None:
    held = [replica("rewards", number, True, 0) for number in range(4)]
    lags = [
        NodeLag("http://a", "a", held, None),
        NodeLag("http://b", "", [], "no node answered within 2 s: http://b: no answer within 1 s"),
        NodeLag("http://c", "", [], "no node answered: http://c: connection refused"),
    ]
    placement = Placement({"http://a": "a", "http://b": "b"}, standbys=1)
    listed = [{"store": "rewards", "kind": "keyvalue", "topic": "t"}]
    (rewards,) = stores_of(listed, lags, snapshots={}, placement=placement, now_ms=NOW_MS)
    assert (rewards.serving, rewards.replicas) == (4, 8)
    seen = nodes_of(lags, placement.names)
    assert [(node.node, node.state, node.replicas, node.serving) for node in seen] == [
        ("a", "answers", 4, 4),
        ("b", "hangs", None, 0),
        ("?", "does not answer", None, 0),
    ]


def test_copies_are_those_that_the_settings_ask_for_as_far_as_there_are_nodes() -> None:
    placement = Placement(standbys=1, standbys_of={"prices": 2})
    assert [placement.copies("rewards", "keyvalue", nodes) for nodes in (1, 2, 3)] == [1, 2, 2]
    assert placement.copies("prices", "keyvalue", 4) == 3
    assert placement.copies("orders", "global", 4) == 4


def test_a_verdict_and_what_was_decided_since() -> None:
    assert quarantined().as_json(NOW_MS) == {
        "table": "hadoop_export", "outcome": "quarantined", "open": True, "rows": 126, "age_ms": 60_000,
    }  # fmt: skip
    for action in Action:
        assert (quarantined(action).outcome, quarantined(action).is_open) == (str(action), False)
    passed = LastVerdict(replace(quarantined().verdict, status=Status.PUBLISHED))
    assert (passed.outcome, passed.is_open) == ("published", False)


def test_one_ill_process_makes_the_platform_ill() -> None:
    def overview(*healths: bool) -> Overview:
        return Overview(0, [Process("kafka", "RUNNING", healthy, 1, 1, None, "") for healthy in healths])

    assert overview(True, True).healthy
    assert not overview(True, False).healthy
    assert not overview().healthy


def test_a_node_that_does_not_answer_has_lost_nothing_as_far_as_anybody_knows() -> None:
    listed = [{"store": "rewards", "kind": "keyvalue", "topic": "log"}]
    held = [replica("rewards", 0, True, 0, "log")]
    silent = NodeLag("http://b", "", [], "no node answered within 10 s: http://b: no answer within 5 s")
    for lags, words in (
        ([NodeLag("http://a", "a", held, None)], "1 of 1"),
        ([NodeLag("http://a", "a", held, None), silent], "at least 1"),
    ):
        stores = stores_of(listed, lags, snapshots={}, placement=Placement(standbys=1), now_ms=NOW_MS)
        (row,) = next(table for table in tables(Overview(NOW_MS, stores=stores)) if table.name == "stores").rows
        assert (row[2].words, row[2].severity is Severity.BAD) == (words, False)
