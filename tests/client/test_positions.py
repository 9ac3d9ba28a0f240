"""Reads that never go back in time: against nodes that are ahead of and behind each other."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from storekeeper.client.answers import Reply
from storekeeper.client.core import ClientCore
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.queries import Query
from storekeeper.protocol.freshness import NO_REQUIREMENT, FreshnessRequirement, TooStaleError
from storekeeper.protocol.position_token import PositionToken
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
        core.finish(query, Reply(200, {"storekeeper-position": token}, b"{}"))
    requirement = core.added_to(FreshnessRequirement(max_lag=3, position=PositionToken.of_changelog("log", 1, 2)), "s")
    assert requirement.position is not None
    assert requirement.max_lag == 3
    assert [requirement.position.changelog.offset("log", partition) for partition in (0, 1)] == [9, 2]
    assert core.added_to(NO_REQUIREMENT, "other") == NO_REQUIREMENT
