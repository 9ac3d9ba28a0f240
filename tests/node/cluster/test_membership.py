"""Sending and hearing heartbeats, over a topic in memory."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from harness.waiting import eventually
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import SystemClock
from storekeeper.node.cluster.heartbeat import Heartbeat, HeartbeatChannel, HeartbeatRecord, ReplicaReport, signed
from storekeeper.node.cluster.membership import Identity, Membership, static_view
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy
from storekeeper.node.cluster.view import Member, ViewSettings
from storekeeper.node.peer_address import PeerRules

SECRET = b"s" * 32
SETTINGS = ViewSettings(interval_s=0.02, suspect_after_s=0.3, expire_after_s=3)


class Topic:
    """Records in order, for any number of channels."""

    def __init__(self) -> None:
        self.records: list[HeartbeatRecord] = []
        self.written = threading.Condition()

    def append(self, key: bytes, value: bytes, signature: bytes) -> None:
        with self.written:
            self.records.append(HeartbeatRecord(key, value, signature))
            self.written.notify_all()


class Channel(HeartbeatChannel):
    """One node's end of the topic. The broker may refuse a few times first."""

    def __init__(self, topic: Topic, refusals: int = 0) -> None:
        self._log = topic
        self._refusals = refusals
        self._place = 0
        self._ended = False

    def open(self) -> None:
        if self._refusals:
            self._refusals -= 1
            raise BrokerUnavailableError("not yet")

    def send(self, key: bytes, value: bytes, signature: bytes) -> None:
        self._log.append(key, value, signature)

    def read(self, timeout_s: float) -> Sequence[HeartbeatRecord]:
        with self._log.written:
            if len(self._log.records) == self._place and self._ended:
                self._log.written.wait(timeout_s)
            found = self._log.records[self._place :]
            self._place += len(found)
        self._ended = True
        return found

    @property
    def caught_up(self) -> bool:
        return self._ended

    def flush(self, timeout_s: float) -> None:
        pass

    def close(self) -> None:
        pass


class Node:
    """A membership and what it was told."""

    def __init__(
        self,
        name: str,
        topic: Topic,
        *,
        secret: bytes = SECRET,
        refusals: int = 0,
        reports: Callable[[], Sequence[ReplicaReport]] = list,
        topics: Mapping[str, str] | None = None,
        join_delay_s: float = 0,
    ) -> None:
        self.members: Sequence[Member] = ()
        self.name_taken = threading.Event()
        identity = Identity(name, f"http://127.0.0.1:{18000 + ord(name)}")
        self.membership = Membership(
            identity,
            secret=secret,
            channel=Channel(topic, refusals),
            view=static_view({}, identity, SETTINGS),
            settings=SETTINGS,
            clock=SystemClock(),
            rebalance=RebalancePolicy(needed=2, join_delay_s=join_delay_s),
            peers=PeerRules.parse("127.0.0.0/8,node-b.example.org"),
            reports=reports,
            topics=lambda: topics or {},
            on_members=self._told,
            on_name_taken=self.name_taken.set,
        )

    def _told(self, members: Sequence[Member], _: Sequence[Member]) -> None:
        self.members = members

    def names(self) -> list[str]:
        return [member.name for member in self.members]

    def settling(self) -> list[str]:
        return [member.name for member in self.members if member.settling]


@contextmanager
def running(*nodes: Node) -> Iterator[None]:
    for node in nodes:
        node.membership.start()
    try:
        yield
    finally:
        for node in nodes:
            node.membership.close()


def test_nodes_find_one_another_and_a_good_bye_is_heard() -> None:
    topic = Topic()
    one, other = Node("a", topic, refusals=2), Node("b", topic)
    with running(one, other):
        eventually(lambda: one.names() == other.names() == ["a", "b"], 60, "they found one another")
        other.membership.leave()
        eventually(lambda: one.names() == ["a"], 60, "the good-bye was heard")


def test_topics_are_heard_of_from_nodes_that_have_left_and_from_ones_own_last_start() -> None:
    topic = Topic()
    for before, topics in (("a", {"log": "old"}), ("b", {"log": "new", "other": "id"})):
        with running(node := Node(before, topic, topics=topics)):
            eventually(node.names, 60, "it is there")
            node.membership.leave()
    node = Node("a", topic)
    assert node.membership.heard_topics is None, "nothing was read yet"
    with running(node):
        eventually(node.names, 60, "it is back")
        assert node.membership.heard_topics == {"log": "new", "other": "id"}


def test_an_error_that_nobody_foresaw_does_not_end_a_membership() -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]

    def reports() -> Sequence[ReplicaReport]:
        if failures:
            raise failures.pop()
        return ()

    topic = Topic()
    one, other = Node("a", topic), Node("b", topic, reports=reports)
    with running(one, other):
        eventually(lambda: one.names() == other.names() == ["a", "b"], 60, "they found one another")
        other.membership.leave()
        eventually(lambda: one.names() == ["a"], 60, "the good-bye was heard")


def test_a_node_of_another_cluster_and_one_at_a_foreign_address_are_not_believed() -> None:
    topic = Topic()
    stranger = Node("x", topic, secret=b"another secret of another cluster")
    value = Heartbeat("y", "http://203.0.113.9:80", "", 1, 1, SystemClock().now_ms()).encode()
    topic.append(b"y", value, signed(SECRET, value))
    one = Node("a", topic)
    with running(one, stranger):
        eventually(lambda: one.membership.counts.refused > 3, 60, "some were refused")
        assert one.names() == ["a"]


def test_a_node_is_a_member_although_its_name_cannot_be_resolved_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("no name server answers")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    topic = Topic()
    value = Heartbeat("b", "https://node-b.example.org:18101", "", 1, 1, SystemClock().now_ms()).encode()
    topic.append(b"b", value, signed(SECRET, value))
    with running(one := Node("a", topic)):
        eventually(lambda: one.names() == ["a", "b"], 60, "it was heard")


def test_a_heartbeat_that_is_sent_again_brings_nobody_back() -> None:
    topic = Topic()
    one, other = Node("a", topic), Node("b", topic)
    with running(one, other):
        eventually(lambda: one.names() == ["a", "b"], 60, "they found one another")
        other.membership.leave()
        eventually(lambda: one.names() == ["a"], 60, "the good-bye was heard")
        old = next(record for record in topic.records if record.key == b"b")
        assert old.value is not None
        assert old.signature is not None
        before = one.membership.counts.repeated
        topic.append(b"b", old.value, old.signature)
        eventually(lambda: one.membership.counts.repeated > before, 60, "it was heard again")
        assert one.names() == ["a"]


def test_of_two_nodes_with_one_name_the_later_one_stays() -> None:
    topic = Topic()
    first, second = Node("a", topic), Node("a", topic)
    with running(first):
        eventually(lambda: topic.records, 60, "the first is there")
        with running(second):
            assert first.name_taken.wait(60)
            assert not second.name_taken.is_set()


def test_nodes_of_one_name_that_start_in_one_millisecond_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: 1)
    found = set[int]()
    for topic in (Topic(), Topic()):
        with running(Node("a", topic)):
            eventually(lambda: topic.records, 60, "it is there")  # noqa: B023 - called at once
        found.add(json.loads(topic.records[0].value or b"")["incarnation"])
    assert len(found) == 2


def test_a_third_node_settles_for_a_while_and_one_that_comes_back_in_time_does_not() -> None:
    topic = Topic()
    nodes = [Node(name, topic) for name in "ab"]
    with running(*nodes):
        eventually(lambda: all(node.names() == ["a", "b"] for node in nodes), 60, "two are there")
        with running(Node("c", topic, join_delay_s=1e9)):
            eventually(lambda: nodes[0].names() == ["a", "b", "c"], 60, "the third came")
            assert nodes[0].settling() == ["c"]
        # It ended without a good-bye, and is still a member: its partitions are its own.
        with running(Node("c", topic, join_delay_s=1e9)):
            eventually(lambda: not nodes[0].settling(), 60, "it is back")
            assert nodes[0].names() == ["a", "b", "c"]
        with running(gone := Node("c", topic)):
            eventually(lambda: gone.names() == ["a", "b", "c"], 60, "it is back again")
            gone.membership.leave()
        with running(Node("c", topic, join_delay_s=0.1)):
            eventually(lambda: nodes[0].settling() == ["c"], 60, "who said good-bye is a newcomer")
            eventually(lambda: not nodes[0].settling(), 60, "it has settled")
