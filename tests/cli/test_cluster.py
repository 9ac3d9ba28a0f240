from __future__ import annotations

from typing import Any

import pytest

from storekeeper.cli.cluster import RestorePace, member_row


def member(**changes: object) -> dict[str, Any]:
    """A member as `/state/cluster` has it."""
    replicas = [{"role": role} for role in ("active", "standby", "active", "none")]
    known = {"name": "a", "address": "http://a:1", "rack": "north", "replicas": replicas, "silent_s": 0.2}
    return {**known, "heard": True, "suspect": False, "settling": False, **changes}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "alive"),
        ({"settling": True}, "settling"),
        ({"suspect": True, "silent_s": 7.4}, "silent for 7 s"),
        ({"heard": False}, "not heard yet"),
        ({"heard": False, "suspect": True, "silent_s": 11.2}, "not heard for 11 s"),
    ],
)
def test_a_member_says_where_it_is_how_it_is_and_what_it_holds(changes: dict[str, Any], state: str) -> None:
    row = member_row(member(**changes))
    assert row == {"name": "a", "address": "http://a:1", "rack": "north", "state": state, "active": 2, "standby": 1}


def test_a_member_without_a_rack_has_no_blank_column() -> None:
    assert member_row(member(rack=""))["rack"] == "-"


def replica(left: int | None, *, serving: bool = False) -> dict[str, Any]:
    return {"node": "a", "store": "s", "partition": 0, "serving": serving, "offset_lag": left}


def test_progress_is_of_what_was_left_at_first_and_the_pace_tells_the_end() -> None:
    pace = RestorePace()
    (first,) = pace.observe([replica(1000)], 0.0).values()
    assert (first.done, first.left, first.eta_s) == (0.0, 1000, None)
    (second,) = pace.observe([replica(750)], 1.0).values()
    assert (second.done, second.eta_s) == (0.25, 3.0)


def test_a_restore_that_stands_still_has_no_end() -> None:
    pace = RestorePace()
    pace.observe([replica(1000)], 0.0)
    (stuck,) = pace.observe([replica(1000)], 1.0).values()
    assert stuck.eta_s is None


def test_it_begins_anew_after_an_end() -> None:
    pace = RestorePace()
    pace.observe([replica(1000)], 0.0)
    assert pace.observe([replica(0, serving=True)], 1.0) == {}
    (again,) = pace.observe([replica(200)], 2.0).values()
    assert again.done == 0.0


def test_a_log_that_grows_faster_is_no_progress_below_nothing() -> None:
    pace = RestorePace()
    pace.observe([replica(100)], 0.0)
    (grown,) = pace.observe([replica(500)], 1.0).values()
    assert (grown.done, grown.eta_s) == (0.0, None)


def test_what_is_not_known_is_left_out() -> None:
    assert RestorePace().observe([replica(None)], 0.0) == {}
