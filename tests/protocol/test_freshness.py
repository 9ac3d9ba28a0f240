"""Requirements: how they are read, and which replicas meet them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.changelog.position import Position
from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.freshness import END_GOOD_FOR_MS, NO_REQUIREMENT, FreshnessRequirement, Stale
from storekeeper.protocol.position_token import PositionToken
from storekeeper.protocol.replica_freshness import ReplicaFreshness
from storekeeper.protocol.replica_states import ReplicaRole

FRESH = ReplicaFreshness(
    topic="t",
    partition=0,
    role=ReplicaRole.ACTIVE,
    caught_up=True,
    offset=100,
    offset_lag=0,
    end_age_ms=50,
    staleness_ms=50,
    source=Position({"pos": {0: 10}}),
)


def test_nothing_is_required_by_nothing() -> None:
    assert FreshnessRequirement.parse("") == FreshnessRequirement.parse(b"key_format=string&limit=5") == NO_REQUIREMENT
    assert not NO_REQUIREMENT.asks_freshness
    assert NO_REQUIREMENT.query() == ""
    unknown = replace(FRESH, offset_lag=None, end_age_ms=None, staleness_ms=None, role=ReplicaRole.STANDBY)
    assert NO_REQUIREMENT.met_by(unknown)


def test_every_requirement_is_read_and_written_again() -> None:
    token = PositionToken.of_source("pos", 0, 4)
    requirement = FreshnessRequirement.parse(
        f"max_staleness_ms=5&max_lag=0&position={token.encode()}&wait_ms=7&stale=no&deadline_ms=9&partial=ok"
    )
    assert requirement == FreshnessRequirement(5, 0, token, 7, Stale.NO, 9, partial_ok=True)
    assert FreshnessRequirement.parse(requirement.query()) == requirement


@pytest.mark.parametrize(
    "query",
    [
        "max_staleness_ms=",
        "max_staleness_ms=-1",
        "max_staleness_ms=1.5",
        "max_staleness_ms=99999999999999",
        "max_lag=x",
        "wait_ms=%D9%A1",
        "deadline_ms=0",
        "stale=maybe",
        "stale=",
        "partial=yes",
        "position=nonsense",
        "max_lag=1&max_lag=2",
        "max_lag=%FF",
    ],
)
def test_malformed_requirements_are_refused(query: str) -> None:
    with pytest.raises(InvalidArgumentError):
        FreshnessRequirement.parse(query)


@pytest.mark.parametrize(
    ("requirement", "replica", "met"),
    [
        ("max_staleness_ms=50", FRESH, True),
        ("max_staleness_ms=49", FRESH, False),
        ("max_staleness_ms=49", replace(FRESH, staleness_ms=None), False),
        ("max_lag=0", FRESH, True),
        ("max_lag=3", replace(FRESH, offset_lag=4), False),
        ("max_lag=3", replace(FRESH, offset_lag=None), False),
        ("max_lag=3", replace(FRESH, end_age_ms=END_GOOD_FOR_MS + 1), False),
        ("max_lag=3", replace(FRESH, end_age_ms=None), False),
        ("stale=no", FRESH, True),
        ("stale=no", replace(FRESH, role=ReplicaRole.STANDBY), False),
        ("stale=ok", replace(FRESH, caught_up=False), True),
        ("max_lag=9", replace(FRESH, caught_up=False), False),
        ("position=pos:0:9", FRESH, True),
        ("position=pos:0:10", FRESH, False),
        ("position=pos:1:0", FRESH, False),
        ("position=other:0:0", FRESH, False),
        (f"position={PositionToken.of_changelog('t', 0, 100).encode()}", FRESH, True),
        (f"position={PositionToken.of_changelog('t', 0, 101).encode()}", FRESH, False),
        (f"position={PositionToken.of_changelog('t', 1, 101).encode()}", FRESH, True),
        (f"position={PositionToken.of_changelog('u', 0, 101).encode()}", FRESH, True),
    ],
)
def test_which_replicas_meet_a_requirement(requirement: str, replica: ReplicaFreshness, met: bool) -> None:
    assert FreshnessRequirement.parse(requirement).met_by(replica) is met


def test_a_requirement_is_sent_on_with_what_is_left() -> None:
    sent = FreshnessRequirement.parse("wait_ms=400&max_lag=1&deadline_ms=5000").sent_on(left_ms=900, spent_ms=100)
    assert (sent.wait_ms, sent.deadline_ms, sent.max_lag) == (300, 900, 1)
    assert FreshnessRequirement(wait_ms=400).sent_on(left_ms=-5, spent_ms=0) == FreshnessRequirement(
        wait_ms=0, deadline_ms=1
    )


def test_the_deadline_is_bounded_by_the_node() -> None:
    assert FreshnessRequirement(deadline_ms=500).deadline_s(10.0, 2.0) == 10.5
    assert FreshnessRequirement(deadline_ms=5000).deadline_s(10.0, 2.0) == 12.0
    assert NO_REQUIREMENT.deadline_s(10.0, 2.0) == 12.0
