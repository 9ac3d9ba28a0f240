"""Reads that never go back in time: against nodes that are ahead of and behind each other."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from storekeeper.changelog.position import Position
from storekeeper.client.answers import Reply
from storekeeper.client.core import ClientCore
from storekeeper.client.exchange import Ask, ClientLimits, Wait
from storekeeper.client.queries import Query
from storekeeper.protocol.freshness import NO_REQUIREMENT, FreshnessRequirement, TooStaleError
from storekeeper.protocol.position_token import MAX_TOKEN_PARTITIONS, PositionToken
from tests.client.both import Either
from tests.client.fake_node import Behaviour, Connection, fake_node, resets


def replica(offset: Callable[[], int]) -> Behaviour:
    """A node with a replica at some offset, which refuses what it has not reached."""

    def behave(connection: Connection, path: str) -> None:
        asked = parse_qs(urlsplit(path).query).get("position")
        wanted = PositionToken.parse(asked[0]).changelog.offset("log", 0) if asked else None
        at = offset()
        if wanted is not None and at < wanted:
            connection.answer({"type": "urn:storekeeper:problem:too-stale", "detail": "behind"}, 503)
            return
        token = PositionToken.of_changelog("log", 0, at).encode()
        connection.answer({"key": "k", "value": at}, storekeeper_position=token)

    return behave


def test_a_monotonic_client_never_reads_an_older_state_on_another_node(client: Either) -> None:
    ahead, behind = [10], [4]
    with fake_node(replica(lambda: ahead[0])) as one, fake_node(replica(lambda: behind[0])) as other:
        with client(one.address, other.address, monotonic=True, limits=ClientLimits(timeout_s=1)) as asking:
            assert asking.get().value == 10
            one.behave = resets
            with pytest.raises(TooStaleError):
                asking.get()
            behind[0] = 12
            assert asking.get().value == 12
        assert any("position=" in path for path in other.asked)


def test_it_waits_for_a_replica_to_get_there(client: Either) -> None:
    behind = iter([3, 4, 9, 10, 11])
    with (
        fake_node(replica(lambda: 10)) as one,
        fake_node(replica(lambda: next(behind))) as other,
        client(one.address, other.address, monotonic=True) as asking,
    ):
        assert asking.get().value == 10
        one.behave = resets
        assert asking.get().value == 10


def test_without_it_an_older_state_may_follow(client: Either) -> None:
    with (
        fake_node(replica(lambda: 10)) as one,
        fake_node(replica(lambda: 4)) as other,
        client(one.address, other.address) as asking,
    ):
        assert asking.get().value == 10
        one.behave = resets
        assert asking.get().value == 4


def test_what_was_written_is_required_of_its_store_alone(client: Either) -> None:
    def behave(connection: Connection, path: str) -> None:
        del path
        connection.answer({"key": "k", "value": 1})

    with fake_node(behave) as one, client(one.address) as asking:
        rewards = asking.client.key_value("rewards")
        rewards.read_your_writes("pos", 2, 41)
        asking.call(lambda client: client.key_value("rewards").get("k"))
        asking.call(lambda client: client.key_value("players").get("k"))
        first, second = (path for path in one.asked if "keyvalue" in path)
        (token,) = parse_qs(urlsplit(first).query)["position"]
        assert PositionToken.parse(token).source.offset("pos", 2) == 42
        assert "wait_ms=" in first
        assert "position" not in second


def test_seen_positions_only_grow() -> None:
    core = ClientCore(["http://a:1"], ClientLimits(), monotonic=True)
    query = Query("/x", lambda reply: reply.json(), store="s")
    tokens = [PositionToken.of_changelog("log", 0, offset).encode() for offset in (5, 9, 7)]
    for token in (*tokens, "no token"):
        core.finish(query, Reply(200, {"storekeeper-position": token}, b"{}"), 0.0)
    asked = FreshnessRequirement(max_lag=3, position=PositionToken.of_changelog("log", 1, 2))
    requirement = core.added_to(asked, "s", 0.0)
    assert requirement.position is not None
    assert requirement.max_lag == 3
    assert [requirement.position.changelog.offset("log", partition) for partition in (0, 1)] == [9, 2]
    assert core.added_to(NO_REQUIREMENT, "other", 0.0) == NO_REQUIREMENT


def test_a_monotonic_client_reads_on_after_more_partitions_than_a_position_may_name(client: Either) -> None:
    partitions = MAX_TOKEN_PARTITIONS + 10
    served = iter(range(partitions))

    def behave(connection: Connection, path: str) -> None:
        FreshnessRequirement.parse(urlsplit(path).query)
        position = PositionToken.of_changelog("log", next(served, 0), 7).encode()
        connection.answer({"key": "k", "value": 1}, storekeeper_position=position)

    with fake_node(behave) as one, client(one.address, monotonic=True) as asking:
        for _ in range(partitions):
            assert asking.get().value == 1
        asked = [urlsplit(path).query for path in one.asked if "keyvalue" in path]
    last = FreshnessRequirement.parse(asked[-1])
    assert (last.position, last.wait_ms) == (None, 500)
    assert last.max_staleness_ms is not None
    assert last.max_staleness_ms < 60_000


def answered(core: ClientCore, token: PositionToken | None, now_s: float, role: str = "active") -> None:
    headers = {"storekeeper-role": role} | ({} if token is None else {"storekeeper-position": token.encode()})
    core.finish(Query("/x", lambda reply: reply.json(), store="s"), Reply(200, headers, b"{}"), now_s)


def of_topic(topic: str, partitions: int) -> PositionToken:
    return PositionToken(Position({topic: dict.fromkeys(range(partitions), 5)}))


def test_positions_too_many_to_send_become_a_staleness_that_is_as_strict() -> None:
    core = ClientCore(["http://a:1"], ClientLimits(), monotonic=True)
    core.require("s", PositionToken.of_source("pos", 0, 3))
    answered(core, of_topic("log", MAX_TOKEN_PARTITIONS), 10.0)
    answered(core, of_topic("log-2", 1), 20.0)
    # All that was seen was in the changelog at 20 s, so an answer no more than 5 s old at 25 s has it.
    later = core.added_to(NO_REQUIREMENT, "s", 25.0)
    assert later.position == PositionToken.of_source("pos", 0, 3)
    assert later.max_staleness_ms == 4950
    assert core.added_to(FreshnessRequirement(max_staleness_ms=7), "s", 25.0).max_staleness_ms == 7


def test_an_answer_without_a_position_counts_by_its_time() -> None:
    core = ClientCore(["http://a:1"], ClientLimits(), monotonic=True)
    answered(core, None, 10.0, role="history")
    assert core.added_to(NO_REQUIREMENT, "s", 10.0) == NO_REQUIREMENT
    answered(core, of_topic("log", 1), 11.0)
    answered(core, None, 12.0)
    later = core.added_to(NO_REQUIREMENT, "s", 12.0)
    assert (later.position, later.max_staleness_ms) == (of_topic("log", 1), 0)


def test_positions_of_earlier_generations_are_forgotten() -> None:
    core = ClientCore(["http://a:1"], ClientLimits(), monotonic=True)
    for topic in ("log", "log-2", "log", "log-3"):
        answered(core, of_topic(topic, 1), 0.0)
    known = core.added_to(NO_REQUIREMENT, "s", 0.0).position
    # During a hand-over nodes answer from both, so the one before counts, too.
    assert known is not None
    assert known.changelog.offsets.keys() == {"log", "log-3"}


def test_a_client_waits_for_what_it_has_seen_itself() -> None:
    core = ClientCore(["http://a:1"], ClientLimits(timeout_s=2), monotonic=True)
    answered(core, None, 10.0)
    exchange = core.begin(Query("/x", lambda reply: reply.json(), store="s"), 10.0)
    too_stale = Reply(503, {}, b'{"type": "urn:storekeeper:problem:too-stale"}')
    ask = exchange.step(10.0)
    assert isinstance(ask, Ask)
    exchange.on_outcome(ask.attempt, too_stale, 10.1)
    assert isinstance(exchange.step(10.1), Wait)
