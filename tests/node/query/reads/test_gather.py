"""Answers from logs that are lost: rows that are there come, and no answer without a row passes for a whole one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest

from storekeeper.node.query.reads.stream_format import NDJSON
from tests.node.query.cluster import Cluster

LOST = "the topic is gone"
LISTS = (
    "/state/keyvalues/rewards/all?",
    "/state/keyvalues/rewards/range/a/z?",
    "/state/keyvalues/rewards/prefix/b?",
    "/state/windowed/sales/w/0/10?",
    "/state/windowed/sales/all/0/10?",
    "/state/sessions/visits/v?",
    "/state/sessions/visits/active?at_ms=2&gap_ms=1&",
    "/state/sessions/visits/ended/0/10?",
    "/state/versions/prices/p?",
    "/state/ranked/players/top?",
    "/state/ranked/players/scores/0/9?",
)


def filled(nodes: Iterable[str] = ("a", "b"), partitions: int = 1) -> Cluster:
    cluster = Cluster(nodes=nodes, partitions=partitions)
    cluster.write("rewards", b"a", b"1")
    cluster.write("rewards", b"b", b"2")
    cluster.write("players", b"x", b'{"Score":1}')
    cluster.write_window(b"w", 0, b"1")
    cluster.write_session(b"v", 0, 2, b"1")
    cluster.write_version(b"p", 5, b"1")
    return cluster


def lose(cluster: Cluster, *partitions: int) -> None:
    for node in cluster.nodes.values():
        for replica_id, replica in node.replicas.items():
            if not partitions or replica_id.partition in partitions:
                replica.goes_by("id", LOST)


async def refused(cluster: Cluster, node: str, path: str) -> None:
    answer = await cluster.get(node, path)
    assert (answer.status_code, LOST in answer.text) == (503, True), (path, answer.text)


def lacks(answer: httpx2.Response, partitions: str = "0") -> Any:
    assert answer.status_code == 200, answer.text
    assert answer.headers["storekeeper-complete"] == "false"
    assert answer.headers["storekeeper-missing-partitions"] == partitions
    return answer.json()


@pytest.mark.parametrize("node", ["a", "b"])
def test_lists_of_a_lost_log_are_refused_or_say_that_they_may_lack_rows(node: str) -> None:
    async def check() -> None:
        cluster = filled()
        before = [(await cluster.get(node, path)).json() for path in LISTS]
        assert all(before)
        lose(cluster)
        for path, rows in zip(LISTS, before, strict=True):
            await refused(cluster, node, path)
            assert lacks(await cluster.get(node, f"{path}partial=ok")) == rows

    asyncio.run(check())


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_key_of_a_lost_log_has_its_row_or_nobody_knows(node: str) -> None:
    async def check() -> None:
        cluster = filled()
        lose(cluster)
        for path in ("keyvalue/rewards/no", "keyvalue/prices/no"):
            assert (await cluster.get(node, f"/state/{path}")).status_code == 503, path
        await refused(cluster, node, "/state/keyvalues/rewards?key=a&key=no")
        for path in ("keyvalue/rewards/a", "keyvalue/prices/p", "keyvalues/rewards?key=a&key=b"):
            answer = await cluster.get(node, f"/state/{path}")
            assert (answer.status_code, answer.headers["storekeeper-complete"]) == (200, "true"), path
        some = lacks(await cluster.get(node, "/state/keyvalues/rewards?key=a&key=no&partial=ok"))
        assert some == {"rows": [{"key": "a", "value": 1}], "complete": False}

    asyncio.run(check())


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_place_that_rows_of_a_lost_log_may_change_is_refused(node: str) -> None:
    async def check() -> None:
        cluster = filled()
        lose(cluster)
        await refused(cluster, node, "/state/ranked/players/rank/x")
        await refused(cluster, node, "/state/ranked/players/rank/no")
        place = lacks(await cluster.get(node, "/state/ranked/players/rank/x?partial=ok"))
        assert place["rank"] == 1
        assert (await cluster.get(node, "/state/ranked/players/rank/no?partial=ok")).status_code == 503

    asyncio.run(check())


def test_a_stream_of_a_lost_log_is_refused_or_ends_with_the_partitions_that_may_lack_rows() -> None:
    async def check() -> None:
        cluster = filled(partitions=3)
        for number in range(60):
            cluster.write("rewards", b"%02d" % number, b"1")
        lose(cluster, 1)
        path = "/state/keyvalues/rewards/all"
        assert (await cluster.get("a", path, accept=NDJSON)).status_code == 503
        *rows, end = (await cluster.get("a", f"{path}?partial=ok", accept=NDJSON)).text.splitlines()
        assert json.loads(end) == {"complete": False, "rows": 62, "missing": [1]}
        assert len({json.loads(row)["key"] for row in rows}) == 62

    asyncio.run(check())


def test_only_the_partition_whose_log_is_lost_is_in_doubt() -> None:
    async def check() -> None:
        cluster = filled(partitions=2)
        there = [b"%d" % number for number in range(20)]
        catalog = cluster.nodes["a"].catalog
        sound = [key.decode() for key in there if catalog.partition("rewards", key) == 0]
        lose(cluster, 1)
        answer = await cluster.get("a", f"/state/keyvalues/rewards?key={'&key='.join(sound)}")
        assert [row["value"] for row in answer.json()["rows"]] == [None] * len(sound)
        lacks(await cluster.get("a", "/state/keyvalues/rewards/all?partial=ok"), "1")

    asyncio.run(check())
