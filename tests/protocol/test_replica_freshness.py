"""What a tracker knows of a replica's freshness: never more than it was told."""

from __future__ import annotations

from storekeeper.changelog.position import Position
from storekeeper.protocol.replica_freshness import FreshnessTracker, SourceProgress


def told(tracker: FreshnessTracker, at_s: float, end: int) -> None:
    tracker.saw_end(tracker.request(at_s), end)


def test_nothing_is_known_before_the_first_answer() -> None:
    tracker = FreshnessTracker()
    tracker.opened(5)
    assert (tracker.staleness_ms(10.0), tracker.end(10.0), tracker.end_offset) == (None, None, 0)


def test_staleness_counts_from_when_the_end_was_asked_for() -> None:
    tracker = FreshnessTracker()
    tracker.opened(5)
    request = tracker.request(10.0)
    tracker.saw_end(request, 5)  # the answer comes whenever it comes
    assert tracker.staleness_ms(10.25) == 250
    assert tracker.staleness_ms(9.0) == 0
    assert tracker.end(10.0005) == (5, 1), "ages are rounded up"


def test_an_end_that_is_not_reached_proves_nothing_until_it_is() -> None:
    tracker = FreshnessTracker()
    tracker.opened(5)
    told(tracker, 10.0, 8)
    assert tracker.staleness_ms(11.0) is None
    tracker.moved(7, None, 10.5)
    assert tracker.staleness_ms(11.0) is None
    tracker.moved(8, None, 10.6)
    assert tracker.staleness_ms(11.0) == 1000


def test_it_does_not_grow_under_constant_traffic() -> None:
    tracker = FreshnessTracker()
    for step in range(1, 500):
        told(tracker, float(step), step * 10)
        tracker.moved(step * 10 - 3, None, step + 0.5)  # always a little behind
        staleness_ms = tracker.staleness_ms(step + 0.5)
        assert step == 1 or (staleness_ms is not None and staleness_ms <= 1500)


def test_it_grows_while_nobody_tells() -> None:
    tracker = FreshnessTracker()
    told(tracker, 10.0, 0)
    tracker.moved(50, None, 12.0)
    assert tracker.staleness_ms(70.0) == 60_000


def test_a_query_far_behind_is_kept_although_many_follow() -> None:
    tracker = FreshnessTracker()
    for step in range(1000):
        told(tracker, float(step), 10 + step)
    tracker.moved(10, None, 1000.0)
    assert tracker.fresh_at_s == 0.0


def test_an_end_below_where_the_replica_was_belongs_to_another_log() -> None:
    tracker = FreshnessTracker()
    tracker.opened(100)
    told(tracker, 10.0, 3)
    assert (tracker.staleness_ms(10.0), tracker.end(10.0)) == (None, None)


def test_opening_anew_forgets() -> None:
    tracker = FreshnessTracker()
    told(tracker, 10.0, 0)
    tracker.opened(0)
    assert tracker.staleness_ms(10.0) is None


def test_listeners_hear_until_they_leave() -> None:
    tracker, heard = FreshnessTracker(), list[str]()
    leave = tracker.listen(lambda: heard.append("x"))
    tracker.moved(1, None, 0.0)
    told(tracker, 1.0, 1)
    leave()
    tracker.moved(2, None, 0.0)
    assert heard == ["x", "x"]


def source(tracker: FreshnessTracker) -> int | None:
    return tracker.source().offset("pos", 0)


def test_a_batch_is_whole_once_an_end_asked_for_later_is_passed() -> None:
    tracker = FreshnessTracker()
    tracker.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    assert source(tracker) == 100, "the batches before are whole, this one may not be"
    told(tracker, 9.0, 1)
    assert source(tracker) == 100, "asked for before the batch was seen"
    told(tracker, 11.0, 1)
    assert source(tracker) == 200


def test_behind_an_open_transaction_nothing_is_fresh() -> None:
    tracker = FreshnessTracker()
    tracker.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    told(tracker, 10.5, 1)
    told(tracker, 11.0, 4)
    assert source(tracker) == 200
    assert tracker.staleness_ms(13.0) == 2500, "what is committed behind it can't be seen"
    tracker.moved(4, None, 13.0)
    assert tracker.staleness_ms(13.0) == 2000


def test_a_later_batch_makes_the_one_before_whole() -> None:
    tracker = FreshnessTracker()
    tracker.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    tracker.moved(2, {"pos": {0: (200, 300)}}, 11.0)
    assert source(tracker) == 200


def test_a_batch_that_wrote_elsewhere_counts_too() -> None:
    progress, here, there = SourceProgress(), FreshnessTracker(), FreshnessTracker()
    for tracker in (here, there):
        tracker.opened(0, source_progress=progress)
    there.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    told(here, 9.5, 0)
    assert here.source() == Position()
    told(here, 10.5, 0)
    assert source(here) == 200
