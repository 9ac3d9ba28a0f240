"""Whom to ask when, decided without a network or a clock."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Unpack

import pytest

from storekeeper.client.answers import Failure, Reply
from storekeeper.client.exchange import Answered, Ask, ClientLimits, Exchange, Wait
from storekeeper.client.nodes import Nodes
from storekeeper.client.queries import Query, ReadOptions, about, value_of
from storekeeper.errors import ConfigurationError, InvalidArgumentError, StoreUnavailableError
from storekeeper.protocol.freshness import FreshnessRequirement, TooStaleError
from storekeeper.protocol.position_token import PositionToken

A, B, C = "http://a:1", "http://b:1", "http://c:1"
LIMITS = ClientLimits(timeout_s=10, attempt_s=2, pause_s=0.1, max_pause_s=1)


def of_one_key(**options: Unpack[ReadOptions]) -> Query[Any]:
    return about("rewards", "keyvalue/{}/k", [], value_of, options, key="k")


def exchange(
    *seeds: str,
    query: Query[Any] | None = None,
    requirement: FreshnessRequirement | None = None,
    limits: ClientLimits = LIMITS,
) -> Exchange:
    wanted = query or of_one_key()
    nodes = Nodes(seeds or (A, B, C))
    return Exchange(wanted, requirement or wanted.requirement, nodes=nodes, limits=limits, draw=lambda: 1.0, now_s=0.0)


def asked(found: Exchange, now_s: float) -> Ask:
    step = found.step(now_s)
    assert isinstance(step, Ask)
    return step


def until(found: Exchange, now_s: float) -> float:
    step = found.step(now_s)
    assert isinstance(step, Wait)
    return step.until_s


def refusal(status: int, kind: str, **headers: str) -> Reply:
    freshest = {"node": "b", "role": "active", "offset_lag": None, "staleness_ms": None, "position": ""}
    body = {"type": f"urn:storekeeper:problem:{kind}", "detail": kind, "freshest": freshest}
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode())


OK = Reply(200, {}, b'{"key": "k", "value": 1}')


def test_the_first_answer_ends_it() -> None:
    found = exchange()
    first = asked(found, 0.0)
    assert first.address == A
    found.on_outcome(first.attempt, OK, 0.1)
    assert found.step(0.1) == Answered(OK)


def test_a_failure_is_followed_by_the_next_node_at_once() -> None:
    found = exchange()
    for address in (A, B, C):
        step = asked(found, 0.0)
        assert step.address == address
        found.on_outcome(step.attempt, Failure("reset"), 0.0)
    assert until(found, 0.0) == pytest.approx(0.1), "all were asked: a pause"
    assert asked(found, 0.1).address == A


def test_a_slow_node_keeps_its_chance_while_others_are_asked_beside_it() -> None:
    found = exchange()
    slow = asked(found, 0.0)
    hedge_s = until(found, 0.0)
    assert hedge_s < 0.5
    second = asked(found, hedge_s)
    third = asked(found, 2 * hedge_s)
    assert [slow.address, second.address, third.address] == [A, B, C]
    assert until(found, 3 * hedge_s) == 2.0, "no fourth: until the first one's time is over"
    found.on_outcome(slow.attempt, OK, 3 * hedge_s)
    assert found.step(3 * hedge_s) == Answered(OK)


def test_an_attempt_ends_well_before_the_deadline_and_gets_longer_with_each_round() -> None:
    found = exchange(A)
    assert asked(found, 0.0).timeout_s == 2.0
    pause_until_s = until(found, 2.0)
    assert asked(found, pause_until_s).timeout_s == 4.0


def test_no_attempt_outlives_the_deadline_and_then_it_gives_up() -> None:
    found = exchange(A, limits=ClientLimits(timeout_s=3, attempt_s=2))
    asked(found, 0.0)
    again_s = until(found, 2.0)
    assert asked(found, again_s).timeout_s == pytest.approx(3 - again_s)
    with pytest.raises(StoreUnavailableError, match=r"within 3 s: http://a:1: no answer within"):
        found.step(3.0)


def test_an_attempt_that_the_deadline_cuts_short_does_not_hide_why_the_one_before_it_failed() -> None:
    found = exchange(A, limits=ClientLimits(timeout_s=3, attempt_s=2))
    found.on_outcome(asked(found, 2.8).attempt, Failure("refuses connections"), 2.8)
    asked(found, until(found, 2.8))
    with pytest.raises(StoreUnavailableError, match=r"within 3 s: http://a:1: refuses connections$"):
        found.step(3.0)


def test_an_answer_after_its_time_still_counts() -> None:
    found = exchange(A)
    late = asked(found, 0.0)
    until(found, 2.0)
    found.on_outcome(late.attempt, OK, 2.05)
    assert found.step(2.05) == Answered(OK)


def test_hedges_are_bounded_so_that_a_loaded_cluster_is_not_asked_twice_as_much() -> None:
    nodes = Nodes([A, B])
    hedged = 0
    for _ in range(200):
        query = of_one_key()
        found = Exchange(query, query.requirement, nodes=nodes, limits=LIMITS, draw=lambda: 1.0, now_s=0.0)
        first = asked(found, 0.0)
        step = found.step(1.5)
        hedged += isinstance(step, Ask)
        found.on_outcome(first.attempt, OK, 1.5)
    assert 20 <= hedged <= 45


def test_retry_after_holds_for_the_node_that_said_it_and_not_for_the_others() -> None:
    found = exchange(A, B)
    first = asked(found, 0.0)
    found.on_outcome(first.attempt, refusal(503, "restoring", retry_after="1"), 0.0)
    second = asked(found, 0.0)
    assert second.address == B
    found.on_outcome(second.attempt, Failure("reset"), 0.0)
    assert asked(found, until(found, 0.0)).address == B
    found.on_outcome(3, Failure("reset"), 0.2)
    while isinstance(step := found.step(0.99), Ask):
        assert step.address == B
        found.on_outcome(step.attempt, Failure("reset"), 0.99)
    assert isinstance(step, Wait)
    assert asked(found, max(1.0, step.until_s)).address == A


def test_a_very_long_retry_after_is_cut() -> None:
    found = exchange(A)
    found.on_outcome(asked(found, 0.0).attempt, refusal(503, "restoring", retry_after="3600"), 0.0)
    assert until(found, 0.0) == 1.0


def test_pauses_grow_and_are_drawn_from_half_to_whole() -> None:
    assert [LIMITS.pause_after_s(rounds, 1.0) for rounds in (0, 1, 2, 3, 4, 60)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert LIMITS.pause_after_s(0, 0.0) == 0.05


def test_a_query_for_one_node_goes_nowhere_else() -> None:
    found = exchange(query=replace(of_one_key(), address=B))
    step = asked(found, 0.0)
    assert step.address == B
    found.on_outcome(step.attempt, Failure("reset"), 0.0)
    assert isinstance(found.step(0.0), Wait)


def test_a_refusal_for_freshness_is_final_after_the_wait_that_was_asked_for() -> None:
    found = exchange(A, query=of_one_key(max_lag=0, wait_ms=700))
    first = asked(found, 0.0)
    assert "wait_ms=700" in first.path
    assert first.timeout_s == pytest.approx(2.7), "the node may take the wait, and then its time"
    found.on_outcome(first.attempt, refusal(503, "too-stale"), 0.3)
    again = asked(found, until(found, 0.3))
    assert "wait_ms=300" in again.path, "only what is left of the wait"
    found.on_outcome(again.attempt, refusal(503, "too-stale"), 0.8)
    with pytest.raises(TooStaleError) as caught:
        found.step(0.8)
    assert caught.value.freshest is not None


def test_what_the_client_saw_itself_is_waited_for_until_the_deadline() -> None:
    query = of_one_key()
    seen = replace(query.requirement, position=PositionToken.of_changelog("log", 0, 5), wait_ms=500)
    found = exchange(A, query=query, requirement=seen)
    now_s = 0.0
    while now_s < 9:
        step = found.step(now_s)
        if isinstance(step, Ask):
            assert "position=" in step.path
            found.on_outcome(step.attempt, refusal(503, "too-stale"), now_s)
        else:
            assert isinstance(step, Wait)
            now_s = step.until_s
    with pytest.raises(TooStaleError):
        found.step(10.0)


def test_each_attempt_tells_the_node_how_long_it_will_be_waited_for() -> None:
    found = exchange(A)
    assert "deadline_ms=2000" in asked(found, 0.0).path


def test_what_waiting_does_not_heal_ends_it_once_every_node_says_so() -> None:
    found = exchange(A, B)
    error = ConfigurationError("the certificate can't be verified")
    found.on_outcome(asked(found, 0.0).attempt, Failure("tls", error), 0.0)
    found.on_outcome(asked(found, 0.0).attempt, Failure("tls", error), 0.0)
    with pytest.raises(ConfigurationError, match="certificate"):
        found.step(0.0)


@pytest.mark.parametrize("limits", [{"timeout_s": 0}, {"attempt_s": -1}, {"max_running": 0}, {"pause_s": 0}])
def test_limits_that_cannot_work(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        ClientLimits(**limits)
