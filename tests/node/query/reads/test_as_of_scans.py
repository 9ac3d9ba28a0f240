"""A node's scans and rankings of a time equal a replay of what was produced; what would take too much is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from storekeeper.changelog.partitioner import partition_for
from storekeeper.node.query.reads import as_of
from storekeeper.serdes.keys.sessions import decode_session_row_key, session_row_key
from storekeeper.serdes.keys.windows import decode_window_row_key, window_row_key
from storekeeper.snapshots import history_reads
from storekeeper.stores.store_definitions import ServedKind
from tests.node.query.cluster import Cluster
from tests.snapshots.made_history import START_MS, Produced, played, value_of

PARTITIONS = 3
SERVED = "rewards=r-log,players=p-log:ranked:Points,sales=w-log:window,visits=s-log:session"
KEYS = [f"{letter}{number}".encode() for letter in "abc" for number in range(7)] + [b"all", b"k/s", b"\xff"]
KINDS = {
    "rewards": ServedKind.KEY_VALUE,
    "players": ServedKind.RANKED,
    "sales": ServedKind.WINDOW,
    "visits": ServedKind.SESSION,
}


def _row_keys(kind: ServedKind) -> list[bytes]:
    if kind is ServedKind.WINDOW:
        return [window_row_key(key, start) for key in KEYS for start in range(0, 400, 100)]
    if kind is ServedKind.SESSION:
        return [session_row_key(key, start, start + 50) for key in KEYS for start in range(0, 400, 100)]
    return KEYS


def _inner(kind: ServedKind, row_key: bytes) -> bytes:
    match kind:
        case ServedKind.WINDOW:
            return decode_window_row_key(row_key)[0]
        case ServedKind.SESSION:
            return decode_session_row_key(row_key)[0]
        case _:
            return row_key


def rows_at(one: Produced, at_ms: int) -> dict[bytes, bytes]:
    """The rows of a time by row key: of several with one key that where nodes look, else the newest."""
    found: dict[bytes, tuple[tuple[bool, int, int], bytes]] = {}
    for (partition, row_key), value in one.at(at_ms).items():
        written_ms = max(
            int(str(record["_batch_ms"]))
            for record in one.records
            if (record["_partition"], record["_key"]) == (partition, row_key)
            and one.era(at_ms) <= int(str(record["_batch_ms"])) <= at_ms
        )
        own = partition == partition_for(_inner(one.kind, row_key), PARTITIONS)
        found[row_key] = max(((own, written_ms, partition), value), found.get(row_key, ((False, -1, -1), b"")))
    return {row_key: value for row_key, (_, value) in found.items()}


@pytest.fixture(scope="module")
def produced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Produced]]:
    root = tmp_path_factory.mktemp("tables")
    stores = {
        name: played(seed, _row_keys(kind), batches=150, kind=kind, stray=0.3)
        for seed, (name, kind) in enumerate(KINDS.items())
    }
    for name, one in stores.items():
        one.write(root, name, appends=4)
    return root, stores


def served(root: Path) -> Cluster:
    return Cluster(tables=root, stores=SERVED, partitions=PARTITIONS)


def times(one: Produced) -> list[int]:
    return [START_MS, *(ms + step for ms, _ in one.states for step in (-1, 0))]


async def followed(cluster: Cluster, node: Callable[[], str], path: str) -> list[dict[str, Any]]:
    """The rows of all pages."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = await cluster.get(node(), path + cursor)
        assert answer.status_code == 200, answer.text
        assert answer.headers["storekeeper-role"] == "history"
        rows += answer.json()
        if "storekeeper-next-cursor" not in answer.headers:
            return rows
        cursor = f"&cursor={answer.headers['storekeeper-next-cursor']}"


def _scans(store: str, drawn: random.Random) -> Iterator[tuple[str, Callable[[bytes], bool]]]:
    """Paths of scans, and which row keys they want."""
    low, high = sorted(drawn.sample([f"{letter}{number}" for letter in "abc" for number in range(7)], 2))
    first, last = sorted((drawn.randrange(0, 400), drawn.randrange(0, 400)))
    match KINDS[store]:
        case ServedKind.WINDOW:
            yield f"windowed/sales/all/{first}/{last}", lambda key: first <= decode_window_row_key(key)[1] <= last
            yield (
                f"windowed/sales/{low}/0/{last}",
                lambda key: decode_window_row_key(key)[0] == low.encode() and decode_window_row_key(key)[1] <= last,
            )
        case ServedKind.SESSION:
            yield f"sessions/visits/ended/{first}/{last}", lambda key: first <= decode_session_row_key(key)[2] <= last
            yield (
                f"sessions/visits/active?at_ms={last}&gap_ms=40",
                lambda key: decode_session_row_key(key)[1] <= last + 40 and decode_session_row_key(key)[2] >= last - 40,
            )
        case _:
            yield f"keyvalues/{store}/all", lambda _: True
            yield f"keyvalues/{store}/range/{low}/{high}", lambda key: low.encode() <= key <= high.encode()
            yield f"keyvalues/{store}/prefix/{low[0]}", lambda key: key.startswith(low[0].encode())


@pytest.mark.parametrize("store", KINDS)
def test_random_scans_equal_a_replay(store: str, produced: tuple[Path, dict[str, Produced]]) -> None:
    """Also pages that end between the rows that a key has in several partitions."""
    root, stores = produced
    cluster, drawn, one = served(root), random.Random(store), stores[store]

    async def ask() -> None:
        for at_ms in drawn.sample(times(one), 6):
            rows = rows_at(one, at_ms)
            for path, wanted in _scans(store, drawn):
                reverse, limit = drawn.random() < 0.5, drawn.choice([5, 30, 100])
                query = f"{'&' if '?' in path else '?'}as_of={at_ms}&limit={limit}" + ("&reverse=true" * reverse)
                found = await followed(cluster, lambda: drawn.choice("abc"), f"/state/{path}{query}")
                expected = [rows[key] for key in sorted(rows, reverse=reverse) if wanted(key)]
                assert [row["value"] for row in found] == list(map(orjson.loads, expected)), (path, query)

    asyncio.run(ask())


def ranking(rows: dict[bytes, bytes]) -> list[tuple[int, Decimal, bytes]]:
    """Place, score and key of each row: equal scores share a place."""
    scores = sorted(((-Decimal(str(orjson.loads(value)["Points"])), key) for key, value in rows.items()))
    above = [sum(other < score for other, _ in scores) for score, _ in scores]
    return [(1 + number, -score, key) for number, (score, key) in zip(above, scores, strict=True)]


def test_rankings_of_a_time_equal_a_replay(produced: tuple[Path, dict[str, Produced]]) -> None:
    root, stores = produced
    cluster, drawn, one = served(root), random.Random(7), stores["players"]

    def shown(rows: list[dict[str, Any]]) -> list[tuple[int, Decimal, str]]:
        return [(row["rank"], Decimal(str(row["score"])), row["key"]) for row in rows]

    async def ask() -> None:
        for at_ms in drawn.sample(times(one), 6):
            expected = [row for row in ranking(rows_at(one, at_ms)) if row[2] != b"\xff"]
            everyone = ranking(rows_at(one, at_ms))
            limit = drawn.choice([5, 100])
            found = await followed(
                cluster, lambda: drawn.choice("abc"), f"/state/ranked/players/top?as_of={at_ms}&limit={limit}"
            )
            texts = [row for row in found if "key_format" not in row]
            assert shown(texts) == [(place, score, key.decode()) for place, score, key in expected]
            low, high = sorted((drawn.randrange(2500), drawn.randrange(2500)))
            within = await followed(
                cluster, lambda: drawn.choice("abc"), f"/state/ranked/players/scores/{low}/{high}?as_of={at_ms}&limit=9"
            )
            assert shown([row for row in within if "key_format" not in row]) == [
                (place, score, key.decode()) for place, score, key in expected if low <= score <= high
            ]
            for place, score, key in expected[:3]:
                path = f"/state/ranked/players/rank/{key.decode().replace('/', '%2F')}?as_of={at_ms}"
                answer = (await cluster.get("a", path)).json()
                assert (answer["rank"], answer["of"]) == (place, len(everyone))
                assert Decimal(str(answer["score"])) == score
            gone = next((key for key in KEYS[:21] if key not in rows_at(one, at_ms)), None)
            if gone is not None:
                answer = (await cluster.get("b", f"/state/ranked/players/rank/{gone.decode()}?as_of={at_ms}")).json()
                assert answer["type"] == "urn:storekeeper:problem:unknown-key"

    asyncio.run(ask())


def test_what_would_take_too_much_is_refused_and_says_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(as_of, "_MOST_CHANGES", 5)
    one = Produced()
    for turn in range(3):
        one.commit([(0, key, value_of("a", str(turn), 1)) for key in (b"a1", b"a2", b"b1")])
    for name in ("rewards", "players"):
        one.write(tmp_path, name)
    early, late = one.states[0][0], one.now_ms
    cluster = served(tmp_path)

    async def ask() -> None:
        for path in (
            "keyvalues/rewards/all",
            "keyvalues/rewards/prefix/a",
            "ranked/players/top",
            "ranked/players/rank/a1",
        ):
            assert (await cluster.get("a", f"/state/{path}?as_of={early}")).status_code == 200
            answer = await cluster.get("a", f"/state/{path}?as_of={late}")
            store = path.split("/")[1]
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:storekeeper:problem:invalid-argument")
            assert "more than 5 changes lead to them" in answer.json()["detail"]
            assert f'storekeeper sql "FROM {store}" --as-of 2026-01-01T00:03:00.000Z' in answer.json()["detail"]
        assert len((await cluster.get("a", f"/state/keyvalues/rewards/prefix/b?as_of={late}")).json()) == 1
        of_one_key = await cluster.get("a", f"/state/keyvalue/rewards/a1?as_of={late}")
        assert of_one_key.json()["value"]["Points"] == 2, "however many changes a key has"

    asyncio.run(ask())


def test_rows_that_take_too_much_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_reads, "_BOUNDED_MEMORY", "8MB")
    one = Produced()
    one.commit([(0, b"%d" % number, value_of("a" * 100_000, "1", number)) for number in range(300)])
    one.write(tmp_path, "rewards")
    answer = asyncio.run(served(tmp_path).get("a", f"/state/keyvalues/rewards/all?as_of={one.now_ms}&limit=1000"))
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:storekeeper:problem:invalid-argument")
    assert "--as-of" in answer.json()["detail"]


def test_streams_of_a_time_and_several_keys_are_refused(produced: tuple[Path, dict[str, Produced]]) -> None:
    root, stores = produced
    at_ms = stores["rewards"].now_ms

    async def ask() -> None:
        cluster = served(root)
        path = f"/state/keyvalues/rewards/all?as_of={at_ms}"
        stream = await cluster.get("a", path, accept="application/x-ndjson")
        assert "come in pages" in stream.json()["detail"]
        several = await cluster.get("a", f"/state/keyvalues/rewards?key=a1&as_of={at_ms}")
        assert several.status_code == 400

    asyncio.run(ask())
