"""What the blocking client does with its connections, against nodes on real sockets."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.errors import StoreUnavailableError
from tests.client.fake_node import Behaviour, Connection, answers, drips, fake_node, hangs


class Talkative:
    """Answers with 5, and notes on which connection each query for a key came."""

    def __init__(self, then: Behaviour | None = None) -> None:
        self.connections: list[int] = []
        self.then = then or answers(5)

    def __call__(self, connection: Connection, path: str) -> None:
        if "keyvalue" in path:
            self.connections.append(connection.socket.getpeername()[1])
            self.then(connection, path)
        else:
            answers()(connection, path)


def client_of(*addresses: str) -> StateClient:
    return StateClient(addresses, limits=ClientLimits(timeout_s=5.0, attempt_s=0.6))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)


def test_queries_go_over_one_connection_from_the_thread_that_asks() -> None:
    node_does = Talkative()
    with fake_node(node_does) as node, client_of(node.address) as client:
        rewards = client.key_value("rewards")
        rewards.get("k")
        helped = _helpers()
        assert [rewards.get(f"key-{number}").value for number in range(20)] == [5] * 20
        # The map of the cluster is asked for beside them, and may need a connection; nothing else needs other threads.
        assert len(_helpers() - helped) <= 2
    assert len(set(node_does.connections)) <= 2


def test_a_connection_that_the_node_closed_meanwhile_is_not_used() -> None:
    closed = threading.Event()

    def answers_and_closes(connection: Connection, path: str) -> None:
        answers(5)(connection, path)
        connection.socket.close()
        closed.set()

    node_does = Talkative(answers_and_closes)
    with fake_node(node_does) as node, client_of(node.address) as client:
        for _ in range(3):
            closed.clear()
            assert client.key_value("rewards").get("k").value == 5
            assert closed.wait(5)
    assert len(node_does.connections) == 3


def test_a_connection_that_ends_under_a_query_costs_nothing() -> None:
    asked_on: Counter[int] = Counter()

    def closes_at_the_second_query(connection: Connection, path: str) -> None:
        caller = connection.socket.getpeername()[1]
        asked_on[caller] += 1
        if asked_on[caller] == 2:
            connection.socket.close()
        else:
            answers(5)(connection, path)

    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        time.sleep(pause_s)

    with (
        fake_node(Talkative(closes_at_the_second_query)) as node,
        StateClient(node.address, sleep=sleep) as client,
    ):
        assert [client.key_value("rewards").get("k").value for _ in range(5)] == [5] * 5
    assert 2 in asked_on.values()
    assert len(pauses) == 0


def test_a_connection_that_the_node_wants_to_end_is_not_used_again() -> None:
    node_does = Talkative(answers(5, connection="close"))
    with fake_node(node_does) as node, client_of(node.address) as client:
        assert [client.key_value("rewards").get("k").value for _ in range(3)] == [5] * 3
    assert len(set(node_does.connections)) == 3


@pytest.mark.parametrize("falls_ill", [hangs, drips], ids=["hangs", "drips"])
def test_another_node_answers_when_one_falls_ill_on_a_kept_connection(falls_ill: Behaviour) -> None:
    with (
        fake_node(answers(5)) as node,
        fake_node(answers(6)) as other,
        client_of(node.address, other.address) as client,
    ):
        assert client.key_value("rewards").get("k").value == 5
        node.behave = falls_ill
        assert client.key_value("rewards").get("k").value == 6


def test_an_answer_that_came_too_late_is_never_taken_for_that_of_the_next_query() -> None:
    late = threading.Event()

    def waits(connection: Connection, path: str) -> None:
        late.wait(10)
        answers("late")(connection, path)

    node_does = Talkative(answers("first"))
    with fake_node(node_does) as node, client_of(node.address) as client:
        rewards = client.key_value("rewards")
        assert rewards.get("k").value == "first"
        node_does.then = waits
        with pytest.raises(StoreUnavailableError):
            rewards.get("k", timeout_s=0.3)
        node_does.then = answers("next")
        late.set()
        assert [rewards.get("k").value for _ in range(5)] == ["next"] * 5


def test_a_client_that_is_closed_keeps_no_connection() -> None:
    ended = threading.Event()

    def notices(connection: Connection, path: str) -> None:
        answers(5)(connection, path)
        connection.socket.settimeout(10)
        if not connection.socket.recv(1):
            ended.set()

    with fake_node(notices) as node:
        with client_of(node.address) as client:
            client.key_value("rewards").get("k")
        assert ended.wait(10)


def _helpers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("state-client")}
