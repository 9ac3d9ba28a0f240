"""Clients against nodes on real sockets that fail in every way: a query is answered as long as one node is well."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from harness.waiting import eventually
from storekeeper.changelog.partitioner import partition_for
from storekeeper.client.answers import NO_ANSWER_WITHIN
from storekeeper.client.client import StateClient
from storekeeper.client.credentials import AccessDeniedError
from storekeeper.client.exchange import ClientLimits
from storekeeper.errors import (
    InvalidArgumentError,
    StateError,
    StoreRestoringError,
    StoreUnavailableError,
    UnknownStoreError,
)
from storekeeper.protocol.freshness import TooStaleError
from tests.client.both import PATIENT, Either
from tests.client.fake_node import (
    Behaviour,
    Connection,
    accepts_nothing,
    answers,
    babbles,
    drips,
    ends_within,
    fake_node,
    hangs,
    refuses,
    resets,
)

UNWELL = {
    "hangs": hangs,
    "resets": resets,
    "ends-within": ends_within,
    "drips": drips,
    "babbles": babbles,
    "500": refuses(500, "internal"),
    "502": refuses(502, "bad-gateway"),
    "restoring": refuses(503, "restoring", retry_after=1),
    "too-many": refuses(429, "too-many-requests", retry_after=1),
    "misdirected": refuses(421, "not-held"),
}


@pytest.mark.parametrize("unwell", UNWELL.values(), ids=UNWELL.keys())
def test_a_node_that_is_unwell_costs_no_query(client: Either, unwell: Behaviour) -> None:
    with fake_node(unwell) as bad, fake_node(answers(5)) as good, client(bad.address, good.address) as asking:
        assert [asking.get().value for _ in range(6)] == [5] * 6
        # On a busy machine the other node may answer before this one has read its query.
        eventually(lambda: bad.asked, 60, "the unwell node was asked first")


def test_a_node_that_is_gone_costs_no_query(client: Either) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with fake_node(answers(5)) as good, client(gone, good.address) as asking:
        assert [asking.get().value for _ in range(6)] == [5] * 6


def test_a_node_that_accepts_nothing_costs_no_query(client: Either) -> None:
    with accepts_nothing() as full, fake_node(answers(5)) as good, client(full, good.address) as asking:
        assert [asking.get().value for _ in range(4)] == [5] * 4


def test_a_slow_node_is_not_asked_first_again(client: Either) -> None:
    with fake_node(hangs) as slow, fake_node(answers(5)) as good, client(slow.address, good.address) as asking:
        for _ in range(20):
            asking.get()
        assert len([path for path in slow.asked if "keyvalue" in path]) < 5
        assert len(good.asked) >= 20


def test_a_slow_answer_still_counts_when_no_other_comes(client: Either) -> None:
    def behave(connection: Connection, path: str) -> None:
        connection.gone.wait(0.4)
        answers(5)(connection, path)

    with fake_node(behave) as slow, fake_node(hangs) as worse, client(worse.address, slow.address) as asking:
        assert asking.get().value == 5


def test_queries_of_many_threads_survive_a_node_that_stops_and_one_that_resets() -> None:
    begun = threading.Event()
    with (
        fake_node(answers(1)) as one,
        fake_node(answers(1)) as other,
        fake_node(answers(1)) as third,
        StateClient([one.address, other.address, third.address], limits=ClientLimits(attempt_s=0.5)) as found,
        ThreadPoolExecutor(16) as pool,
    ):

        def ask(number: int) -> object:
            if number == 60:
                one.behave, other.behave = hangs, resets
                begun.set()
            return found.key_value("rewards").get(f"key-{number}").value

        assert list(pool.map(ask, range(200))) == [1] * 200
    assert begun.is_set()


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid-argument", InvalidArgumentError),
        (401, "unauthenticated", AccessDeniedError),
        (403, "forbidden", AccessDeniedError),
        (404, "unknown-store", UnknownStoreError),
        (404, "unknown-route", InvalidArgumentError),
        (414, "key-too-long", InvalidArgumentError),
    ],
)
def test_what_no_node_would_answer_is_asked_once(
    client: Either, status: int, kind: str, error: type[StateError]
) -> None:
    with fake_node(refuses(status, kind)) as one, fake_node(answers(5)) as other:
        with client(one.address, other.address) as asking, pytest.raises(error, match=kind):
            asking.get()
        assert (len(one.asked), len(other.asked)) == (1, 0)


def test_an_unknown_key_is_none(client: Either) -> None:
    with fake_node(refuses(404, "unknown-key")) as one, client(one.address) as asking:
        assert asking.get().value is None


def test_it_gives_up_in_time_and_says_what_each_node_said(client: Either) -> None:
    limits = ClientLimits(timeout_s=0.8, attempt_s=0.2)
    with (
        fake_node(refuses(503, "unavailable")) as one,
        fake_node(hangs) as other,
        client(one.address, other.address, limits=limits) as asking,
    ):
        with pytest.raises(StoreUnavailableError, match=r"within 0\.8 s") as caught:
            asking.get()
        assert f"{one.address}: unavailable" in str(caught.value)
        assert f"{other.address}: " in str(caught.value)


@pytest.mark.parametrize("unwell", ["hangs", "drips", "accepts nothing"])
def test_a_node_that_lets_the_time_run_out_is_told_apart_from_one_that_is_away(client: Either, unwell: str) -> None:
    limits = ClientLimits(timeout_s=0.5, attempt_s=5)
    with contextlib.ExitStack() as stack:
        if unwell == "accepts nothing":
            address = stack.enter_context(accepts_nothing())
        else:
            address = stack.enter_context(fake_node(UNWELL[unwell])).address
        with client(address, limits=limits) as asking:
            (lag,) = asking.call(lambda found: found.lag())
        assert NO_ANSWER_WITHIN in (lag.error or "")
    with client(address, limits=limits) as asking:
        (lag,) = asking.call(lambda found: found.lag())
        assert NO_ANSWER_WITHIN not in (lag.error or NO_ANSWER_WITHIN)


def test_a_defect_of_every_node_is_no_reason_to_wait(client: Either) -> None:
    with fake_node(refuses(500, "internal")) as one, fake_node(refuses(500, "internal")) as other:
        asking = client(one.address, other.address, limits=PATIENT)
        with asking, pytest.raises(StateError, match="internal"):
            asking.get()
        assert sorted([len(one.asked), len(other.asked)]) == [1, 1]


def test_it_says_so_when_all_restore(client: Either) -> None:
    limits = ClientLimits(timeout_s=0.5)
    restoring = refuses(503, "restoring")
    with fake_node(restoring) as one, client(one.address, limits=limits) as asking, pytest.raises(StoreRestoringError):
        asking.get()


def test_a_node_that_restores_is_asked_again(client: Either) -> None:
    def behave(connection: Connection, path: str) -> None:
        asked = len(one.asked)
        (refuses(503, "restoring") if asked == 1 else answers(5))(connection, path)

    with fake_node(behave) as one, client(one.address) as asking:
        assert asking.get().value == 5
        assert len(one.asked) > 1


def test_it_waits_as_long_as_a_node_asks_for(client: Either) -> None:
    with fake_node(refuses(503, "restoring", retry_after=1)) as one:
        with client(one.address, limits=ClientLimits(timeout_s=0.9)) as asking, pytest.raises(StoreRestoringError):
            asking.get()
        assert len(one.asked) == 1


def test_a_refusal_for_freshness_names_the_freshest(client: Either) -> None:
    def behave(connection: Connection, path: str) -> None:
        del path
        freshest = {"node": "b", "role": "standby", "offset_lag": 7, "staleness_ms": 90, "position": "x"}
        problem = {"type": "urn:storekeeper:problem:too-stale", "detail": "too old", "freshest": freshest}
        connection.answer(problem, 503, retry_after=1)

    with fake_node(behave) as one, fake_node(behave) as other, client(one.address, other.address) as asking:
        with pytest.raises(TooStaleError) as caught:
            asking.get(max_lag=3)
        assert caught.value.freshest is not None
        assert (caught.value.freshest.node, caught.value.freshest.offset_lag) == ("b", 7)
        assert "max_lag=3" in one.asked[0]
        assert len(one.asked) == len(other.asked) == 1


def map_of(epoch: str, nodes: dict[str, str], holders: list[list[str]]) -> dict[str, object]:
    members = [{"name": name, "address": address} for name, address in nodes.items()]
    return {"node": "a", "epoch": epoch, "members": members, "assignment": {"rewards": holders}}


def test_it_finds_the_cluster_from_one_node_and_goes_straight_to_the_owner(client: Either) -> None:
    with fake_node(hangs) as one, fake_node(hangs) as other:
        nodes = {"a": one.address, "b": other.address}
        document = map_of("e1", nodes, [["a", "b"], ["b", "a"]])

        def behave(value: int) -> Behaviour:
            def of(connection: Connection, path: str) -> None:
                if path.startswith("/state/cluster"):
                    connection.answer(document)
                else:
                    connection.answer({"key": "k", "value": value}, storekeeper_epoch="e1")

            return of

        one.behave, other.behave = behave(0), behave(1)
        one_by_one = replace(PATIENT, max_running=1)  # a slow answer would let the other node answer first
        with client(one.address, limits=one_by_one) as asking:
            learned = asking.call(lambda found: found.cluster())
            assert learned["epoch"] == "e1"
            for number in range(20):
                key = f"key-{number}"
                assert asking.get(key).value == partition_for(key.encode(), 2), "its owner answers"
            one.behave = resets
            assert asking.get("key-0").value == 1, "the other holder answers, of which it was never told"


def test_it_fetches_the_map_anew_when_an_answer_bears_another_epoch(client: Either) -> None:
    fetched = threading.Event()

    def behave(connection: Connection, path: str) -> None:
        if path.startswith("/state/cluster"):
            if epoch[0] == "e2":
                fetched.set()
            connection.answer(map_of(epoch[0], {}, []))
        else:
            connection.answer({"key": "k", "value": 1}, storekeeper_epoch=epoch[0])

    epoch = ["e1"]
    with fake_node(behave) as one, client(one.address) as asking:
        asking.call(lambda found: found.cluster())
        epoch[0] = "e2"
        for _ in range(500):
            asking.get()
            if fetched.is_set():
                break
        assert fetched.is_set()


def test_a_map_never_leads_from_tls_to_plain_text() -> None:
    from storekeeper.client.nodes import ClusterMap, Nodes

    nodes = Nodes(["https://a:1"])
    found = ClusterMap.of(map_of("e", {"a": "https://a:1", "b": "http://b:1"}, [["b", "a"]]))
    nodes.learn(found, 0.0)
    assert nodes.in_order("rewards", b"k", 0.0) == ["https://a:1"]
