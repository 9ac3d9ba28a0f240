"""Streams and rankings of two real nodes over a real broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, write
from harness.waiting import eventually

pytestmark = pytest.mark.broker

ROWS = 4000
PADDING = "x" * 8000
STREAM = {"accept": "application/x-ndjson"}


@pytest.fixture(scope="module")
def split(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Two ready nodes that share the partitions of a store of 32 MB and of a ranked one."""
    for topic in ("reads-big-changelog", "reads-players-changelog"):
        broker.create_topic(topic, config=COMPACTED)
    big = [(b"%05d" % number, json.dumps({"n": number, "padding": PADDING}).encode()) for number in range(ROWS)]
    write(broker, "reads-big-changelog", big)
    players = [(b"%03d" % number, b'{"Score": %d}' % (number // 2)) for number in range(200)]
    write(broker, "reads-players-changelog", players)
    stores = "big=reads-big-changelog,players=reads-players-changelog:ranked:Score"
    one, other = make_nodes(broker, tmp_path_factory.mktemp("reads"), stores, replicas=0, max_streams=1)
    for node in (one, other):
        node.start()
    for node in (one, other):
        node.wait_ready()
    yield one, other
    for node in (one, other):
        node.close()


def test_a_stream_brings_all_rows_of_both_nodes_in_order(split: tuple[NodeProcess, NodeProcess]) -> None:
    for node, query in zip(split, ("", "?reverse=true"), strict=True):
        answer = node.get(f"/state/keyvalues/big/all{query}", headers=STREAM)
        *rows, end = [json.loads(line) for line in answer.text.splitlines()]
        assert end == {"complete": True, "rows": ROWS}
        numbers = [row["value"]["n"] for row in rows]
        assert numbers == sorted(range(ROWS), reverse=bool(query))


def test_a_reader_that_stops_holds_its_stream_up_and_one_that_leaves_gives_it_back(
    split: tuple[NodeProcess, NodeProcess],
) -> None:
    one, _ = split
    path = "/state/keyvalues/big/all"
    with socket.socket() as reader:
        # So small that what nobody reads is soon held up at the node.
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        reader.connect((urlsplit(one.address).hostname, urlsplit(one.address).port))
        reader.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {STREAM['accept']}\r\n\r\n".encode())
        assert reader.recv(15) == b"HTTP/1.1 200 OK"
        refused = one.get(path, headers=STREAM)
        assert (refused.status_code, refused.headers.get("retry-after")) == (429, "1")
        assert one.get("/state/keyvalue/big/00001").status_code == 200
    again = eventually(lambda: _streamed(one, path), 30, "the place is free again")
    assert again.endswith(b'{"complete":true,"rows":%d}\n' % ROWS)


def _streamed(node: NodeProcess, path: str) -> bytes | None:
    answer = node.get(path, headers=STREAM)
    return answer.content if answer.status_code == 200 else None


def test_a_ranking_follows_its_changelog(broker: Broker, split: tuple[NodeProcess, NodeProcess]) -> None:
    one, other = split
    top = one.get("/state/ranked/players/top?limit=3").json()
    assert [(row["rank"], row["key"], row["score"]) for row in top] == [(1, "198", 99), (1, "199", 99), (3, "196", 98)]
    assert other.get("/state/ranked/players/rank/000").json() == {"rank": 199, "key": "000", "score": 0, "of": 200}
    write(broker, "reads-players-changelog", [(b"000", b'{"Score": 98.5}'), (b"199", None)])
    expected = {"rank": 2, "key": "000", "score": 98.5, "of": 199}
    for node in split:
        eventually(
            lambda node=node: node.get("/state/ranked/players/rank/000").json() == expected,  # type: ignore[misc]
            60,
            "the new score counts everywhere",
        )
    one.kill()
    one.start()
    one.wait_ready()
    assert one.get("/state/ranked/players/rank/000").json() == expected
