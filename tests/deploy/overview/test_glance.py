"""What there is to see, from heartbeats, replicas and verdicts."""

from __future__ import annotations

from dataclasses import replace

from deploy.overview.glance import app_glance, node_glances, store_glances, verdict_glance
from quality.verdict import Status, Verdict
from spark_apps.heartbeat import AppState, Heartbeat
from state.client import NodeLag

NOW_MS = 1_700_000_000_000
BEAT = Heartbeat(
    "loyalty",
    2,
    7,
    AppState.RUNNING,
    started_at_ms=0,
    updated_at_ms=NOW_MS - 1000,
    last_progress_ms=NOW_MS - 2000,
    offsets={"pos": {"0": 10, "1": 5}},
    latest_offsets={"pos": {"0": 17, "1": 4}},
)


def replica(store: str, partition: int, serving: bool, lag: int | None) -> dict[str, object]:
    return {"store": store, "partition": partition, "serving": serving, "offset_lag": lag}


def test_an_app_is_what_it_says_while_it_says_something() -> None:
    seen = app_glance(BEAT, NOW_MS)
    assert (seen.state, seen.healthy, seen.lag_records, seen.idle_ms) == ("RUNNING", True, 7, 2000)
    silent = app_glance(BEAT, NOW_MS + 60_000)
    assert (silent.state, silent.healthy) == ("SILENT", False)
    stopped = app_glance(replace(BEAT, state=AppState.STOPPED), NOW_MS + 60_000)
    assert (stopped.state, stopped.healthy) == ("STOPPED", True)
    failed = app_glance(replace(BEAT, state=AppState.FAILED, error="no topic"), NOW_MS)
    assert (failed.healthy, failed.error) == (False, "no topic")


def test_a_store_is_what_all_nodes_hold_of_it() -> None:
    lags = [
        NodeLag("http://a", "a", [replica("rewards", 0, True, 0), replica("rewards", 1, False, 40)], None),
        NodeLag("http://b", "b", [replica("rewards", 0, True, 3), replica("prices", 0, True, None)], None),
        NodeLag("http://c", "", [], "does not answer"),
    ]
    listed: list[dict[str, object]] = [
        {"store": "rewards", "kind": "keyvalue", "topic": "t", "approximate_num_entries": 12},
        {"store": "prices", "kind": "keyvalue", "topic": "p", "approximate_num_entries": 0},
        {"store": "alone", "kind": "global", "topic": "g"},
    ]
    alone, prices, rewards = store_glances(listed, lags, {"rewards": NOW_MS - 5000}, NOW_MS)
    assert (rewards.partitions, rewards.replicas, rewards.serving, rewards.lag_records) == (2, 3, 2, 40)
    assert (rewards.entries, rewards.snapshot_age_ms) == (12, 5000)
    assert (prices.replicas, prices.lag_records, prices.snapshot_age_ms) == (1, None, None)
    assert (alone.replicas, alone.serving, alone.entries) == (0, 0, None)
    assert [(node.node, node.serving, node.error) for node in node_glances(lags)] == [
        ("a", 1, None),
        ("b", 2, None),
        ("?", 0, "does not answer"),
    ]


def test_a_verdict() -> None:
    seen = verdict_glance("t", Verdict("t", Status.QUARANTINED, 1, 2, 30, NOW_MS - 9), NOW_MS)
    assert (seen.passed, seen.rows, seen.age_ms) == (False, 30, 9)
