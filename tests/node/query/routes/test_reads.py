"""Every route against dictionaries: random rows in 12 partitions on three nodes, asked of any of them."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.node.query.reads.stream_format import ARROW, NDJSON
from storekeeper.protocol.position_token import PositionToken
from tests.node.query.cluster import LIMITS, Cluster

KEYS = st.text(st.sampled_from("ab/é\x00~"), min_size=1, max_size=4).filter(lambda key: key not in {".", ".."})
TIMES = st.integers(0, 60)
NODES = ("a", "b", "c")
some = settings(max_examples=20)


async def pages(cluster: Cluster, path: str, limit: int) -> list[Any]:
    """All rows of a path, page by page, each page from another node than the one before."""
    rows: list[Any] = []
    cursor = ""
    for number in range(1000):
        answer = await cluster.get(NODES[number % 3], f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["storekeeper-complete"] == "true"
        page = answer.json()
        assert len(page) <= limit
        rows += page
        following = answer.headers.get("storekeeper-next-cursor")
        if following is None:
            return rows
        cursor = f"&cursor={following}"
    raise AssertionError("the pages have no end")


async def stream(cluster: Cluster, path: str, node: str = "b") -> list[Any]:
    """All rows of a path as NDJSON."""
    answer = await cluster.get(node, path, accept=NDJSON)
    assert answer.status_code == 200, answer.text
    *rows, end = [json.loads(line) for line in answer.text.splitlines()]
    assert end == {"complete": True, "rows": len(rows)}
    return rows


async def same_everywhere(cluster: Cluster, path: str, expected: list[Any], limit: int) -> None:
    """Pages of a size, one page of all, a stream, and all of it backwards."""
    reverse = f"{path}{'&' if '?' in path else '?'}reverse=true"
    assert await pages(cluster, path, limit) == expected
    assert await pages(cluster, path, 1000) == expected
    assert await pages(cluster, reverse, limit) == expected[::-1]
    assert await stream(cluster, path) == expected
    assert await stream(cluster, reverse, "c") == expected[::-1]


@functools.cache
def _kept(max_examined_rows: int) -> Cluster:
    return Cluster(limits=dataclasses.replace(LIMITS, max_examined_rows=max_examined_rows))


def shared(max_examined_rows: int = 1000) -> Cluster:
    """A cluster without rows, kept from one example to the next."""
    cluster = _kept(max_examined_rows)
    cluster.clear()
    return cluster


def by_bytes(rows: Iterable[tuple[Any, int]], key: Callable[[Any], Any]) -> list[tuple[Any, int]]:
    return sorted(rows, key=lambda row: key(row[0]))


@some
@given(st.dictionaries(KEYS, st.integers(0, 9), max_size=30), KEYS, KEYS, st.integers(1, 5))
def test_key_value_routes(table: dict[str, int], one: str, other: str, limit: int) -> None:
    async def check() -> None:
        cluster = shared()
        for key, value in table.items():
            cluster.write("rewards", key.encode(), b"%d" % value)
        rows = [{"key": key, "value": value} for key, value in by_bytes(table.items(), str.encode)]
        base = "/state/keyvalues/rewards"
        await same_everywhere(cluster, f"{base}/all", rows, limit)
        lower, upper = sorted((one, other), key=str.encode)
        within = [row for row in rows if lower.encode() <= str(row["key"]).encode() <= upper.encode()]
        await same_everywhere(cluster, f"{base}/range/{quote(lower, safe='')}/{quote(upper, safe='')}", within, limit)
        beginning = [row for row in rows if str(row["key"]).startswith(one)]
        await same_everywhere(cluster, f"{base}/prefix/{quote(one, safe='')}", beginning, limit)

    asyncio.run(check())


def test_no_route_counts_rows_by_an_estimate() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write("rewards", b"k", b"7")
        for node in cluster.nodes:
            assert (await cluster.get(node, "/state/keyvalues/rewards/count")).status_code == 404

    asyncio.run(check())


def test_a_key_is_read_alike_however_its_path_is_written() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write("rewards", b"k/1", b"7")
        for node in cluster.nodes:
            for path in ("/state/keyvalue", "/state/%6Beyvalue"):
                found = await cluster.get(node, f"{path}/rewards/k%2F1?max_lag=9&wait_ms=1")
                assert found.status_code == 503, "no end offset is known, so no lag is"
                assert (await cluster.get(node, f"{path}/rewards/ay8x?key_format=base64url")).json()["value"] == 7
                assert (await cluster.get(node, f"{path}/rewards/k/1")).json() == {"key": "k/1", "value": 7}

    asyncio.run(check())


@some
@given(st.dictionaries(st.tuples(KEYS, TIMES), st.integers(0, 9), max_size=30), KEYS, TIMES, TIMES, st.integers(1, 5))
def test_window_routes(table: dict[tuple[str, int], int], key: str, one: int, other: int, limit: int) -> None:
    async def check() -> None:
        cluster = shared(max_examined_rows=3)
        for (name, start_ms), value in table.items():
            cluster.write_window(name.encode(), start_ms, b"%d" % value)
        first, last = sorted((one, other))
        rows = [
            {"key": f"{name}@{start_ms}", "window": {"start_ms": start_ms}, "value": value}
            for (name, start_ms), value in by_bytes(table.items(), lambda row: (row[0].encode(), row[1]))
            if first <= start_ms <= last
        ]
        await same_everywhere(cluster, f"/state/windowed/sales/all/{first}/{last}", rows, limit)
        of_key = [row for row in rows if str(row["key"]).rpartition("@")[0] == key]
        await same_everywhere(cluster, f"/state/windowed/sales/{quote(key, safe='')}/{first}/{last}", of_key, limit)

    asyncio.run(check())


@some
@given(
    st.dictionaries(st.tuples(KEYS, TIMES, st.integers(0, 9)), st.integers(0, 9), max_size=30),
    KEYS,
    TIMES,
    st.integers(0, 9),
    st.integers(1, 5),
)
def test_session_routes(table: dict[tuple[str, int, int], int], key: str, at_ms: int, gap: int, limit: int) -> None:
    async def check() -> None:
        cluster = shared(max_examined_rows=3)
        for (name, start, length), value in table.items():
            cluster.write_session(name.encode(), start, start + length, b"%d" % value)
        ordered = by_bytes(table.items(), lambda row: (row[0].encode(), row[1] + row[2], row[1]))
        rows = [
            {"key": name, "window": {"start_ms": start, "end_ms": start + length}, "value": value}
            for (name, start, length), value in ordered
        ]
        quoted = quote(key, safe="")
        of_key = [row for row in rows if row["key"] == key]
        await same_everywhere(cluster, f"/state/sessions/visits/{quoted}", of_key, limit)
        overlapping = [row for row in of_key if _touches(row, at_ms, at_ms + gap)]
        path = f"/state/sessions/visits/{quoted}?from_ms={at_ms}&to_ms={at_ms + gap}"
        await same_everywhere(cluster, path, overlapping, limit)
        active = [row for row in rows if _touches(row, at_ms - gap, at_ms + gap)]
        await same_everywhere(cluster, f"/state/sessions/visits/active?at_ms={at_ms}&gap_ms={gap}", active, limit)
        ended = [row for row in rows if at_ms <= row["window"]["end_ms"] <= at_ms + gap]
        await same_everywhere(cluster, f"/state/sessions/visits/ended/{at_ms}/{at_ms + gap}", ended, limit)

    asyncio.run(check())


def _touches(row: Any, from_ms: int, to_ms: int) -> bool:
    return bool(row["window"]["end_ms"] >= from_ms and row["window"]["start_ms"] <= to_ms)


@some
@given(
    st.dictionaries(KEYS, st.one_of(st.integers(-3, 3), st.none()), max_size=30),
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.integers(1, 5),
)
def test_ranked_routes(table: dict[str, int | None], one: int, other: int, limit: int) -> None:
    async def check() -> None:
        cluster = shared()
        for key, score in table.items():
            cluster.write("players", key.encode(), json.dumps({"Score": score}).encode())
        scores = {key: score for key, score in table.items() if score is not None}
        rows = [
            {"rank": 1 + sum(s > score for s in scores.values()), "key": key, "score": score, "value": {"Score": score}}
            for key, score in sorted(scores.items(), key=lambda row: (-row[1], row[0].encode()))
        ]
        assert await pages(cluster, "/state/ranked/players/top", limit) == rows
        lowest, highest = sorted((one, other))
        between = [row for row in rows if lowest <= scores[str(row["key"])] <= highest]
        assert await pages(cluster, f"/state/ranked/players/scores/{lowest}/{highest}", limit) == between
        for number, row in enumerate(rows):
            path = f"/state/ranked/players/rank/{quote(str(row['key']), safe='')}"
            found = (await cluster.get(NODES[number % 3], path)).json()
            assert found == {"rank": row["rank"], "key": row["key"], "score": row["score"], "of": len(rows)}
        for key in table.keys() - scores.keys():
            answer = await cluster.get("a", f"/state/ranked/players/rank/{quote(key, safe='')}")
            assert answer.json()["type"].endswith("unknown-key")

    asyncio.run(check())


def test_scores_keep_their_digits_and_are_compared_exactly() -> None:
    async def check() -> None:
        cluster = Cluster()
        for key, score in ((b"a", b"0.1"), (b"b", b"0.10000000000000000001"), (b"c", b"1e-1"), (b"d", b"0.10")):
            cluster.write("players", key, b'{"Score":%b}' % score)
        answer = await cluster.get("a", "/state/ranked/players/top")
        assert [(row["rank"], row["key"]) for row in answer.json()] == [(1, "b"), (2, "a"), (2, "c"), (2, "d")]
        assert b'"score":0.10000000000000000001,' in answer.content

    asyncio.run(check())


def test_a_key_named_like_a_route_is_asked_for_as_base64url() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write_window(b"all", 5, b"1")
        cluster.write_window(b"b", 5, b"2")
        cluster.write_session(b"ended", 5, 6, b"3")
        of_key = await cluster.get("a", "/state/windowed/sales/YWxs/0/9?key_format=base64url")
        assert [row["key"] for row in of_key.json()] == ["all@5"]
        assert len((await cluster.get("a", "/state/windowed/sales/all/0/9")).json()) == 2
        assert len((await cluster.get("a", "/state/sessions/visits/ZW5kZWQ?key_format=base64url")).json()) == 1

    asyncio.run(check())


def test_a_value_with_line_breaks_stays_on_one_line_of_a_stream() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write("rewards", b"k", b'{\n  "a": "x\\ny"\r\n}')
        cluster.write("rewards", b"\xff", b"no json\n")
        rows = await stream(cluster, "/state/keyvalues/rewards/all")
        assert rows[0] == {"key": "k", "value": {"a": "x\ny"}}
        assert (rows[1]["key_format"], rows[1]["value_format"]) == ("base64url", "base64url")

    asyncio.run(check())


def test_an_arrow_stream_has_its_rows_and_its_mark() -> None:
    pyarrow = pytest.importorskip("pyarrow")

    async def check() -> None:
        cluster = Cluster()
        for number in range(50):
            cluster.write("rewards", b"%02d" % number, b'{"n": %d}' % number)
        cluster.write_session(b"s", 3, 7, b"1")
        answer = await cluster.get("a", "/state/keyvalues/rewards/all", accept=ARROW)
        reader = pyarrow.ipc.open_stream(answer.content)
        batches = []
        while True:
            try:
                batches.append(reader.read_next_batch_with_custom_metadata())
            except StopIteration:
                break
        mark = dict(batches[-1].custom_metadata)
        assert (mark, batches[-1].batch.num_rows) == ({b"complete": b"true", b"rows": b"50"}, 0)
        rows = [row for batch in batches for row in batch.batch.to_pylist()]
        assert [(row["key"], row["value"]) for row in rows] == [(b"%02d" % n, f'{{"n": {n}}}') for n in range(50)]
        catalog = cluster.nodes["a"].catalog
        assert all(row["partition"] == catalog.partition("rewards", row["key"]) for row in rows)
        answer = await cluster.get("a", "/state/sessions/visits/active?at_ms=5&gap_ms=1", accept=ARROW)
        (row,) = pyarrow.ipc.open_stream(answer.content).read_all().to_pylist()
        assert (row["key"], row["start_ms"], row["end_ms"]) == (b"s", 3, 7)

    asyncio.run(check())


def _problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/state/keyvalue/sales/k", 400, "wrong-kind"),
        ("/state/keyvalue/visits/k?stale=ok", 400, "wrong-kind"),
        ("/state/keyvalues/sales/all", 400, "wrong-kind"),
        ("/state/keyvalues/visits/prefix/a", 400, "wrong-kind"),
        ("/state/windowed/rewards/k/0/1", 400, "wrong-kind"),
        ("/state/sessions/sales/k", 400, "wrong-kind"),
        ("/state/ranked/rewards/top", 400, "wrong-kind"),
        ("/state/keyvalues/nowhere/all", 404, "unknown-store"),
        ("/state/windowed/nowhere/k/0/1", 404, "unknown-store"),
        ("/state/ranked/players/rank/nobody", 404, "unknown-key"),
        ("/state/metadata/nowhere/k", 404, "unknown-store"),
        ("/state/stores/nowhere", 404, "unknown-store"),
        ("/state/windowed/sales/k/0", 400, "invalid-argument"),
        ("/state/windowed/sales/k/-1/5", 400, "invalid-argument"),
        ("/state/windowed/sales/k/0/9223372036854775808", 400, "invalid-argument"),
        ("/state/windowed/sales/k/%C2%B2/5", 400, "invalid-argument"),
        ("/state/sessions/visits/active", 400, "invalid-argument"),
        ("/state/sessions/visits/ended/x/1", 400, "invalid-argument"),
        ("/state/ranked/players/scores/NaN/1", 400, "invalid-argument"),
        ("/state/ranked/players/top?limit=0", 400, "invalid-argument"),
        ("/state/ranked/players/top?limit=1001", 400, "invalid-argument"),
        ("/state/ranked/players/top?cursor=AAAA", 400, "invalid-argument"),
        ("/state/keyvalues/rewards/all?max_lag=x", 400, "invalid-argument"),
        ("/state/keyvalues/rewards/prefix/", 400, "invalid-argument"),
        (f"/state/keyvalues/rewards/prefix/{'x' * 1001}", 414, "key-too-long"),
        (f"/state/keyvalues/rewards?key=k&key={'x' * 1001}", 414, "key-too-long"),
        ("/state/keyvalues/rewards?key=k&key=", 400, "invalid-argument"),
        (f"/state/keyvalues/rewards?{'&'.join(['key=k'] * 1001)}", 400, "invalid-argument"),
    ],
)
def test_what_cannot_be_asked_is_told(path: str, status: int, kind: str) -> None:
    assert _problem(asyncio.run(shared().get("a", path))) == (status, kind)


def test_other_nodes_are_not_asked_for_a_scan_that_is_refused() -> None:
    cluster, requests = Cluster(max_reads=0), list[None]()
    cluster.network.before_request = lambda: requests.append(None)
    answer = asyncio.run(cluster.get("a", "/state/keyvalues/rewards/all"))
    assert _problem(answer) == (429, "too-many-scans")
    assert len(requests) == 1, "the client's own"


def test_a_wrong_kind_names_the_routes_that_fit() -> None:
    answer = asyncio.run(shared().get("a", "/state/keyvalues/sales/all"))
    assert "/state/windowed/sales/{key}/{from}/{to}" in answer.json()["detail"]


def test_a_cursor_fits_its_own_query_only() -> None:
    async def check() -> None:
        cluster = Cluster()
        for number in range(9):
            cluster.write("rewards", b"%d" % number, b"1")
            cluster.write("players", b"%d" % number, b'{"Score":%d}' % number)
        cursor = (await cluster.get("a", "/state/keyvalues/rewards/all?limit=2")).headers["storekeeper-next-cursor"]
        for path in ("rewards/all?reverse=true&", "rewards/prefix/1?", "rewards/range/0/9?", "players/all?"):
            answer = await cluster.get("b", f"/state/keyvalues/{path}cursor={cursor}")
            assert _problem(answer) == (400, "invalid-argument")
        ranked = (await cluster.get("a", "/state/ranked/players/top?limit=2")).headers["storekeeper-next-cursor"]
        assert (await cluster.get("a", f"/state/ranked/players/scores/0/9?cursor={ranked}")).status_code == 400
        assert (await cluster.get("a", f"/state/ranked/players/top?cursor={cursor}")).status_code == 400

    asyncio.run(check())


def test_what_a_dead_node_held_is_missing_and_told() -> None:
    async def check() -> None:
        cluster = Cluster()
        for number in range(50):
            cluster.write("rewards", b"%02d" % number, b"%d" % number)
            cluster.write("players", b"%02d" % number, b'{"Score":%d}' % number)
        cluster.network.down.add("c")
        lost = [p for store, p, _ in cluster.assignment.held_by("c") if store == "rewards"]
        for path in ("/state/keyvalues/rewards/all", "/state/ranked/players/top"):
            status, kind = _problem(await cluster.get("a", path))
            assert (status, kind) == (503, "unavailable")
        answer = await cluster.get("a", "/state/keyvalues/rewards/all?partial=ok")
        assert answer.headers["storekeeper-complete"] == "false"
        assert answer.headers["storekeeper-missing-partitions"] == ",".join(map(str, lost))
        catalog = cluster.nodes["a"].catalog
        expected = [n for n in range(50) if catalog.partition("rewards", b"%02d" % n) not in lost]
        assert [row["value"] for row in answer.json()] == expected
        answer = await cluster.get("a", "/state/keyvalues/rewards/all?partial=ok", accept=NDJSON)
        end = json.loads(answer.text.splitlines()[-1])
        assert end == {"complete": False, "rows": len(expected), "missing": lost}

    asyncio.run(check())


def dies_at(cluster: Cluster, node: str, *, request: int) -> None:
    """Has a node refuse connections from one request between nodes on."""
    left = iter(range(request - 1, -1, -1))

    def count() -> None:
        if next(left, None) == 0:
            cluster.network.down.add(node)

    cluster.network.before_request = count


def test_a_stream_goes_on_at_another_holder_when_a_node_dies_in_the_middle() -> None:
    async def check() -> None:
        cluster = Cluster(standbys=1, stream_page_rows=5)
        for number in range(300):
            cluster.write("rewards", b"%03d" % number, b"%d" % number)
        dies_at(cluster, "c", request=6)
        assert [row["value"] for row in await stream(cluster, "/state/keyvalues/rewards/all", "a")] == list(range(300))
        assert "c" in cluster.network.down

    asyncio.run(check())


def test_a_stream_that_breaks_off_says_that_it_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.node.query.reads.streams._PAUSES_S", (0.0, 0.0))

    async def check() -> None:
        cluster = Cluster(stream_page_rows=5)
        for number in range(300):
            cluster.write("rewards", b"%03d" % number, b"%d" % number)
        dies_at(cluster, "c", request=6)
        answer = await cluster.get("a", "/state/keyvalues/rewards/all", accept=NDJSON)
        *rows, end = [json.loads(line) for line in answer.text.splitlines()]
        assert [row["value"] for row in rows] == list(range(len(rows)))
        assert (end["complete"], end["rows"]) == (False, len(rows))
        assert end["error"]["type"].endswith("unavailable")
        assert cluster.nodes["a"].streams.open == 0

    asyncio.run(check())


def test_streams_are_bounded_and_give_their_place_back() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write("rewards", b"k", b"1")
        streams = cluster.nodes["a"].streams
        streams.open = 4
        refused = await cluster.get("a", "/state/keyvalues/rewards/all", accept=NDJSON)
        assert _problem(refused) == (429, "too-many-scans")
        streams.open = 3
        await stream(cluster, "/state/keyvalues/rewards/all", "a")
        assert streams.open == 3

    asyncio.run(check())


def test_a_requirement_holds_for_every_part() -> None:
    async def check() -> None:
        cluster = Cluster()
        cluster.write("rewards", b"k", b"1")
        # Nobody has told these replicas where their logs end, so none can prove how fresh it is.
        answer = await cluster.get("a", "/state/keyvalues/rewards/all?max_staleness_ms=1000")
        assert _problem(answer) == (503, "too-stale")
        seen = (await cluster.get("a", "/state/keyvalues/rewards/all")).headers["storekeeper-position"]
        again = await cluster.get("b", f"/state/keyvalues/rewards/all?position={seen}")
        assert again.status_code == 200
        partition = cluster.nodes["a"].catalog.partition("rewards", b"k")
        later = await cluster.get("b", "/state/keyvalues/rewards/all?position=" + _token("r-log", partition, 99))
        assert _problem(later) == (503, "too-stale")

    asyncio.run(check())


def _token(topic: str, partition: int, offset: int) -> str:
    return PositionToken.of_changelog(topic, partition, offset).encode()


def test_a_ranking_that_outgrew_its_memory_is_refused_while_its_rows_are_served() -> None:
    async def check() -> None:
        cluster = Cluster(nodes="a", ranked_bytes=3000)
        for number in range(20):
            cluster.write("players", b"%d" % number, b'{"Score":1}')
        status, kind = _problem(await cluster.get("a", "/state/ranked/players/top"))
        assert (status, kind) == (503, "unavailable")
        assert len((await cluster.get("a", "/state/keyvalues/players/all")).json()) == 20

    asyncio.run(check())


def test_topology_and_metadata_agree() -> None:
    async def check() -> None:
        cluster = Cluster(standbys=1)
        found = (await cluster.get("a", "/state/metadata/rewards/k")).json()
        topology = (await cluster.get("b", "/state/topology")).json()
        (rewards,) = [store for store in topology["stores"] if store["store"] == "rewards"]
        holders = rewards["partitions"][found["partition"]]
        assert (holders["active"], holders["standbys"]) == (found["active"], found["standbys"])
        assert set(found["addresses"]) == {found["active"], *found["standbys"]}
        drawn = (await cluster.get("b", "/state/topology.mmd")).text
        assert drawn.startswith("flowchart LR\n")
        assert all(name in drawn for name in ("r-log", "rewards", "node a", "node b", "node c"))

    asyncio.run(check())


def test_a_node_that_has_not_heard_of_a_topic_made_anew_gets_no_incomplete_answer() -> None:
    cluster = Cluster(nodes=("a", "b"), partitions=4)
    for number in range(20):
        cluster.write("rewards", b"k%d" % number, b"{}")
    more = dataclasses.replace(cluster.assignment, partitions=dict.fromkeys(cluster.definitions, 8))
    other = cluster.nodes["b"]
    other.catalog.complete(more, other.replicas)
    answer = asyncio.run(cluster.get("a", "/state/keyvalues/rewards/all"))
    assert answer.status_code == 503, answer.text
