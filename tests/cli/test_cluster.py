from __future__ import annotations

from typing import Any

import pytest

from storekeeper.cli.cluster import member_row


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
