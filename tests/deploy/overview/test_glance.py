"""What there is to see, from heartbeats, replicas and verdicts."""

from __future__ import annotations

from dataclasses import replace

from deploy.exits import Exits
from deploy.overview.glance import (
    Holders,
    app_glance,
    exit_glance,
    node_glances,
    store_glances,
    verdict_glance,
)
from deploy.run_reader import LastVerdict, Snapshot
from quality.resolution import Action, Resolution
from quality.verdict import Status, Verdict
from spark_apps.runtime.heartbeat import AppState, Heartbeat
from state.client import NodeLag

NOW_MS = 1_700_000_000_000
BEAT = Heartbeat(
    "pos",
    2,
    7,
    AppState.RUNNING,
    started_at_ms=NOW_MS - 90_000,
    updated_at_ms=NOW_MS - 1000,
    last_progress_ms=NOW_MS - 1000,
    last_batch_ms=NOW_MS - 60_000,
    batch_id=4,
    input_rows_per_second=12.5,
    offsets={"pos": {"0": 10, "1": 5}},
    latest_offsets={"pos": {"0": 17, "1": 4}},
)


def replica(store: str, partition: int, serving: bool, lag: int | None, topic: str = "t") -> dict[str, object]:
    return {"store": store, "partition": partition, "serving": serving, "offset_lag": lag, "topic": topic}


def test_an_app_is_what_it_says_while_it_says_something() -> None:
    seen = app_glance(BEAT, NOW_MS)
    assert (seen.state, seen.healthy, seen.lag_records) == ("RUNNING", True, 7)
    silent = app_glance(BEAT, NOW_MS + 60_000)
    assert (silent.state, silent.healthy) == ("SILENT", False)
    stopped = app_glance(replace(BEAT, state=AppState.STOPPED), NOW_MS + 60_000)
    assert (stopped.state, stopped.healthy) == ("STOPPED", True)
    failed = app_glance(replace(BEAT, state=AppState.FAILED, error="no topic"), NOW_MS)
    assert (failed.healthy, failed.error) == (False, "no topic")


def test_the_last_batch_is_a_batch_and_not_an_idle_moment() -> None:
    assert app_glance(BEAT, NOW_MS).last_batch_age_ms == 60_000
    restarted = replace(BEAT, batch_id=None, last_batch_ms=None)
    assert (app_glance(restarted, NOW_MS).last_batch_age_ms, app_glance(restarted, NOW_MS).up_ms) == (None, 90_000)


def test_an_app_that_does_not_run_reads_nothing() -> None:
    assert app_glance(BEAT, NOW_MS).input_rows_per_second == 12.5
    assert app_glance(BEAT, NOW_MS + 60_000).input_rows_per_second == 0
    assert app_glance(replace(BEAT, state=AppState.STOPPED), NOW_MS).input_rows_per_second == 0


def test_an_app_that_restores_says_how_far_it_is_and_how_long_it_takes() -> None:
    assert app_glance(BEAT, NOW_MS).restoring is None
    one = {"store": "rewards", "partition": 0, "done": 10, "total": 100, "eta_s": 9.4}
    two = {"store": "rewards", "partition": 1, "done": 40, "total": 100, "eta_s": 2.0}
    beat = replace(BEAT, restoring=(one, two), dropped_total=3)
    seen = app_glance(beat, NOW_MS)
    assert (seen.restoring, seen.dropped) == ("restores 2 store partitions: 25 %, 9 s left", 3)
    assert app_glance(beat, NOW_MS + 60_000).restoring is None, "it has said nothing for long"
    alone = replace(BEAT, restoring=(two,))
    assert app_glance(alone, NOW_MS).restoring == "restores 1 store partition: 40 %, 2 s left"
    assert app_glance(replace(alone, state=AppState.STOPPED), NOW_MS).restoring is None


def test_an_app_that_has_not_looked_yet_has_not_caught_up() -> None:
    assert app_glance(replace(BEAT, offsets={}), NOW_MS).lag_records is None
    assert app_glance(replace(BEAT, latest_offsets={}), NOW_MS).lag_records is None
    assert app_glance(replace(BEAT, latest_offsets=BEAT.offsets), NOW_MS).lag_records == 0


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
    alone, prices, rewards = store_glances(
        listed, lags, estimates={"rewards": 12}, snapshots=taken, holders=Holders(), now_ms=NOW_MS
    )
    assert (rewards.partitions, rewards.replicas, rewards.serving, rewards.lag_records) == (2, 3, 2, 40)
    assert (rewards.estimated_entries, rewards.snapshot_age_ms, rewards.snapshot_rows) == (12, 5000, 9)
    assert (prices.replicas, prices.lag_records, prices.snapshot_age_ms) == (1, None, None)
    assert (alone.replicas, alone.serving, alone.estimated_entries) == (0, 0, None)


def test_a_store_is_what_is_held_of_the_changelog_that_answers_for_it() -> None:
    old = [replica("rewards", 0, True, 0), replica("rewards", 1, True, 0)]
    new = [replica("rewards@t-g2", number, True, 0, "t-g2") for number in range(3)]
    listed = [{"store": "rewards", "kind": "keyvalue", "topic": "t-g2"}]
    (rewards,) = store_glances(
        listed,
        [NodeLag("http://a", "a", [*old, *new], None)],
        estimates={},
        snapshots={},
        holders=Holders(),
        now_ms=NOW_MS,
    )
    assert (rewards.partitions, rewards.replicas, rewards.serving) == (3, 3, 3)


def test_replicas_of_a_node_that_hangs_are_missed_and_it_is_called_by_its_name() -> None:
    held = [replica("rewards", number, True, 0) for number in range(4)]
    lags = [
        NodeLag("http://a", "a", held, None),
        NodeLag("http://b", "", [], "no node answered within 2 s: http://b: no answer within 1 s"),
        NodeLag("http://c", "", [], "no node answered: http://c: connection refused"),
    ]
    holders = Holders({"http://a": "a", "http://b": "b"}, standbys=1)
    listed = [{"store": "rewards", "kind": "keyvalue", "topic": "t"}]
    (rewards,) = store_glances(listed, lags, estimates={}, snapshots={}, holders=holders, now_ms=NOW_MS)
    assert (rewards.serving, rewards.replicas) == (4, 8)
    seen = node_glances(lags, holders.names)
    assert [(node.node, node.state, node.replicas, node.serving) for node in seen] == [
        ("a", "answers", 4, 4),
        ("b", "hangs", None, 0),
        ("?", "does not answer", None, 0),
    ]


def test_copies_are_those_that_the_settings_ask_for_as_far_as_there_are_nodes() -> None:
    holders = Holders(standbys=1, standbys_of={"prices": 2})
    assert [holders.copies("rewards", "keyvalue", nodes) for nodes in (1, 2, 3)] == [1, 2, 2]
    assert holders.copies("prices", "keyvalue", 4) == 3
    assert holders.copies("orders", "global", 4) == 4


def test_a_verdict_and_what_was_decided_since() -> None:
    held = Verdict("t", Status.QUARANTINED, 1, 2, 30, NOW_MS - 9)
    seen = verdict_glance(LastVerdict(held), NOW_MS)
    assert (seen.outcome, seen.open, seen.rows, seen.age_ms) == ("quarantined", True, 30, 9)
    for action in Action:
        decided = Resolution("t", action, 1, 2, "meera", "test data", (), 30, NOW_MS)
        seen = verdict_glance(LastVerdict(held, decided), NOW_MS)
        assert (seen.outcome, seen.open) == (str(action), False)
    passed = verdict_glance(LastVerdict(replace(held, status=Status.PUBLISHED)), NOW_MS)
    assert (passed.outcome, passed.open) == ("published", False)


def test_a_process_that_ended_by_itself() -> None:
    seen = exit_glance(Exits("node-a", 2, "terminated by SIGKILL", NOW_MS - 7), NOW_MS)
    assert (seen.process, seen.count, seen.last, seen.age_ms) == ("node-a", 2, "terminated by SIGKILL", 7)
