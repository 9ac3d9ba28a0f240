"""Answers kept until their row changes: right after every write, whenever it falls between a read and its answer."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.clock import SystemClock
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.forwarding import Peers, Router
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.freshness_gate import FreshnessGate
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.query.reads.pages import QueryLimits
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_rows import RowCache
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.position_token import PositionToken
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.row import ReplicaRow
from storekeeper.stores.store_definitions import ServedKind, parse_definitions
from tests.changelog.messages import Record
from tests.node.replicas.recording import RecordingListener, log_of

TARGET = b"/state/keyvalue/rewards/k"
LIMITS = QueryLimits(max_key_bytes=100)
MANY = b"/state/keyvalues/rewards?key=k&key=k2&key=k"


class OneNode:
    """One node with one partition and a cache."""

    def __init__(self, store: str = "rewards=t") -> None:
        clock = SystemClock()
        self.replica = Replica(
            ReplicaId("rewards", 0),
            "t",
            storage=MemoryStorage(),
            clock=clock,
            listener=RecordingListener(),
            cache=RowCache(1 << 20),
        )
        self.replica.open(log_of(0, 0))
        self.end = 0
        catalog = self.catalog = Catalog("a", {"a": "http://a"}, parse_definitions(store))
        catalog.complete(Assignment(("a",), {"rewards": 1}, 0), {self.replica.replica_id: self.replica})
        router = self.router = Router(catalog, Peers("a", dict, clock=clock))
        self.clock = clock
        self.hot = self.hot_of(1000)
        gate = FreshnessGate(clock, lambda: None)
        past = PastReads("a", Path("/nonexistent"), clock)
        self.point = PointQueries(
            catalog, router, self.hot, limits=LIMITS, longest_s=0.1, clock=clock, gate=gate, past=past
        )

    def hot_of(self, most_keys: int) -> HotReads:
        return HotReads(self.catalog, self.clock, replace(LIMITS, max_page_rows=most_keys))

    def write(self, *rows: tuple[bytes, bytes | None]) -> None:
        records = [Record(self.end + number, *row) for number, row in enumerate(rows)]
        self.end += len(records)
        self.replica.apply(PartitionBatch("t", 0, records, self.end, end_reached=True))
        self.replica.tracker.saw_end(self.replica.tracker.request(self.clock.monotonic_s()), self.end)


@pytest.fixture
def node() -> OneNode:
    return OneNode()


def parsed(response: bytes | None, expected: str = "200 OK") -> tuple[dict[str, str], bytes]:
    assert response is not None
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert status == f"HTTP/1.1 {expected}"
    headers = dict(line.split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return headers, body


def test_the_second_answer_is_kept_and_the_same(node: OneNode) -> None:
    node.write((b"k", b'{"n":1}'))
    first = parsed(node.hot.now(TARGET))
    assert node.hot._kept(b"rewards", b"k") is not None
    second = parsed(node.hot.now(TARGET))
    assert second[1] == first[1] == b'{"key":"k","value":{"n":1}}'
    varying = {"storekeeper-staleness-ms"}
    assert {k: v for k, v in second[0].items() if k not in varying} == {
        k: v for k, v in first[0].items() if k not in varying
    }


def test_a_write_changes_the_next_answer_and_its_headers(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"other", b"1"))
    node.hot.now(TARGET)
    node.write((b"k", b"2"))
    headers, body = parsed(node.hot.now(TARGET))
    assert body == b'{"key":"k","value":2}'
    assert headers["storekeeper-offset"] == "3"
    node.write((b"other", b"2"))
    headers, body = parsed(node.hot.now(TARGET))
    assert (headers["storekeeper-offset"], body) == ("4", b'{"key":"k","value":2}')
    assert PositionToken.parse(headers["storekeeper-position"]) == PositionToken.of_changelog("t", 0, 4)


def test_that_there_is_no_row_is_kept_until_there_is_one(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"k2", b"1"))
    assert node.hot.now(TARGET)
    node.write((b"k", None))
    for _ in range(2):
        headers, body = parsed(node.hot.now(TARGET), "404 Not Found")
        assert headers["content-type"] == "application/problem+json"
        assert headers["storekeeper-offset"] == "3"
        assert json.loads(body)["type"] == "urn:storekeeper:problem:unknown-key"
        assert json.loads(body)["detail"] == "store rewards has no key 'k'"
        null, there = b'{"key":"k","value":null}', b'{"key":"k2","value":1}'
        assert parsed(node.hot.now(MANY))[1] == b'{"rows":[%b,%b,%b],"complete":true}' % (null, there, null)
    node.write((b"k", b"2"))
    assert parsed(node.hot.now(TARGET))[1] == b'{"key":"k","value":2}'


def test_with_a_lost_log_no_key_is_said_to_have_no_row(node: OneNode) -> None:
    node.write((b"k", b"1"))
    assert node.hot.now(MANY)
    parsed(node.hot.now(b"/state/keyvalue/rewards/k2"), "404 Not Found")
    node.replica.goes_by("id", "the topic is gone")
    for _ in range(2):
        assert node.hot.now(MANY) is None
        assert node.hot.now(b"/state/keyvalue/rewards/k2") is None
        assert parsed(node.hot.now(TARGET))[1] == b'{"key":"k","value":1}'
    there = b"/state/keyvalues/rewards?key=k&key=k"
    row = b'{"key":"k","value":1}'
    assert parsed(node.hot.now(there))[1] == b'{"rows":[%b,%b],"complete":true}' % (row, row)


def test_keys_may_be_posted(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"k2", b"2"))
    target, rows = b"/state/keyvalues/rewards", b'{"key":"k2","value":2},{"key":"k","value":1}'
    for body in (b'{"keys":["k2","k"]}', b'{"keys": ["azI", "aw"], "key_format": "base64url"}'):
        assert parsed(node.hot.posted(target, body))[1] == b'{"rows":[%b],"complete":true}' % rows
    for refused in (b"", b"{", b'{"keys":[]}', b'{"keys":[""]}', b'{"keys":[1]}', b'{"keys":["k"],"more":1}'):
        assert node.hot.posted(target, refused) is None
    assert node.hot.posted(target + b"?max_lag=0", b'{"keys":["k"]}') is None
    assert node.hot.posted(b"/state/keyvalue/rewards/k", b'{"keys":["k"]}') is None
    assert node.hot.posted(target, b'{"keys":[%b]}' % b",".join([b'"k"'] * 1001)) is None


def test_a_value_whose_schema_is_unknown_is_not_kept() -> None:
    node = OneNode("rewards=t:keyvalue:schemas")
    node.write((b"k", b"\0\0\0\0\x09x"))
    assert b"base64" in parsed(node.hot.now(TARGET))[1]
    assert node.hot.now(MANY) is None
    node.replica.read_row = lambda _: ReplicaRow(1, 0, b"1")  # the registry has the schema by now
    assert parsed(node.hot.now(TARGET))[1] == b'{"key":"k","value":1}'


def test_a_row_that_a_write_overtook_is_not_kept(node: OneNode) -> None:
    node.write((b"k", b"1"))
    before = node.replica.writes
    node.write((b"k", b"2"))
    node.hot._keep(node.replica, "rewards", b"k", b"1", before)
    assert parsed(node.hot.now(TARGET))[1] == b'{"key":"k","value":2}'


def test_the_position_covers_what_may_show_already(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.write((b"k", b"1"), (b"k2", b"1"))
    for _ in range(2):
        assert node.hot.now(TARGET)
        assert node.hot.now(MANY)
    monkeypatch.setattr(node.replica, "shown_offset", 99)  # the follower has announced a write, and may have done it
    for response in (node.hot.now(TARGET), node.hot.now(MANY)):
        headers, _ = parsed(response)
        assert PositionToken.parse(headers["storekeeper-position"]) == PositionToken.of_changelog("t", 0, 99)


def test_a_closed_replica_answers_nothing(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"k2", b"1"))
    node.hot.now(TARGET)
    node.hot.now(MANY)
    node.replica.close()
    assert node.hot.now(TARGET) is None
    assert node.hot.now(MANY) is None


def test_several_keys_come_in_the_order_asked(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"k2", b"2"))
    for _ in range(2):
        headers, body = parsed(node.hot.now(MANY))
        rows = b'{"key":"k","value":1},{"key":"k2","value":2},{"key":"k","value":1}'
        assert body == b'{"rows":[%b],"complete":true}' % rows
        assert headers["storekeeper-complete"] == "true"
        assert PositionToken.parse(headers["storekeeper-position"]) == PositionToken.of_changelog("t", 0, 2)


@pytest.mark.parametrize("kind", [ServedKind.WINDOW, ServedKind.SESSION])
def test_a_store_of_another_kind_is_left_to_the_application(kind: ServedKind) -> None:
    node = OneNode(f"rewards=t:{kind}")
    node.write((b"k", b"1"), (b"k2", b"2"))
    for target in (TARGET, TARGET + b"2", TARGET + b"?max_lag=0", MANY):
        assert node.hot.now(target) is None


def test_more_keys_than_allowed_are_left_to_the_application(node: OneNode) -> None:
    node.write((b"k", b"1"), (b"k2", b"2"))
    hot = node.hot_of(2)
    assert hot.rows(b"rewards", [b"k", b"k2"]) is not None
    assert hot.rows(b"rewards", [b"k", b"k2", b"k"]) is None


@pytest.mark.parametrize(
    "target",
    [
        b"/state/keyvalue/rewards/",
        b"/state/keyvalue/nosuch/k",
        b"/state/keyvalue/rewards/k?key_format=base64url",
        b"/state/keyvalue/rewards/k?max_lag=x",
        b"/state/keyvalue/rewards/k?position=nonsense",
        b"/state/keyvalue/rewards/a b",
        b"/state/keyvalue/rewards/\xff",
        b"/state/keyvaluex/rewards/k",
        b"/state/keyvalues/rewards",
        b"/state/keyvalues/rewards?key=",
        b"/state/keyvalues/rewards?key=k&limit=3",
        b"/state/keyvalues/rewards?key=k&key=a%20b",
        b"/state/keyvalues/rewards/all?key=k",
        b"/state/keyvalue/rewards/" + b"k" * 9000,
    ],
)
def test_everything_unusual_is_left_to_the_application(node: OneNode, target: bytes) -> None:
    node.write((b"k", b"1"))
    assert node.hot.now(target) is None


def test_requirements_are_met_or_left_to_the_application(node: OneNode) -> None:
    node.write((b"k", b"1"))
    assert node.hot.now(TARGET + b"?max_staleness_ms=60000&max_lag=0") is not None
    assert node.hot.now(TARGET + b"?max_staleness_ms=0") is None
    assert node.hot.now(TARGET + b"?position=pos:0:5") is None
    for query in (b"?key_format=string", b"?key_format=string&deadline_ms=2984"):
        assert parsed(node.hot.now(TARGET + query))[1] == b'{"key":"k","value":1}'
    assert node.hot.now(TARGET + b"?key_format=string&deadline_ms=0") is None


def test_readers_beside_a_writer_never_go_back(node: OneNode, tmp_path: Path) -> None:
    del tmp_path
    node.write((b"k", b"0"))
    done = threading.Event()

    def keep_writing() -> None:
        for number in range(1, 3000):
            node.write((b"k", b"%d" % number))
        done.set()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    last = 0
    while not done.is_set():
        response = node.hot.now(TARGET)
        if response is None:
            continue
        headers, body = parsed(response)
        number = int(body.removeprefix(b'{"key":"k","value":').removesuffix(b"}"))
        shown = PositionToken.parse(headers["storekeeper-position"]).changelog.offset("t", 0)
        # The record of number n lies at offset n.
        assert int(headers["storekeeper-offset"]) - 1 <= number
        assert shown is not None
        assert number < shown
        assert number >= last
        last = number
    writer.join()
    assert parsed(node.hot.now(TARGET))[1] == b'{"key":"k","value":2999}'
