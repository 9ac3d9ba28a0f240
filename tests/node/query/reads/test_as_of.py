"""A node's answers for a time equal a replay of what was produced; what it can't answer is an error that says so."""

from __future__ import annotations

import asyncio
import importlib
import random
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from storekeeper.clock import SystemClock
from storekeeper.errors import StoreUnavailableError
from storekeeper.node.query.answers.answer import TooManyScansError
from storekeeper.node.query.reads.as_of import PastReads, one_of_each
from storekeeper.node.query.reads.pages import RowPage
from storekeeper.serdes.keys.sessions import decode_session_row_key, session_row_key
from storekeeper.serdes.keys.windows import decode_window_row_key, window_row_key
from storekeeper.stores.store_definitions import ServedKind
from tests.node.query.cluster import Cluster
from tests.snapshots.made_history import START_MS, Produced, played, value_of

KEYS = [b"a", b"aa", b"card-7", b"k/s"]
STORES = {"rewards": ServedKind.KEY_VALUE, "players": ServedKind.RANKED, "sales": ServedKind.WINDOW}
STORES |= {"visits": ServedKind.SESSION}
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def produced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Produced]]:
    root = tmp_path_factory.mktemp("tables")
    stores = {
        name: played(seed, _row_keys(kind), batches=60, kind=kind, stray=0)
        for seed, (name, kind) in enumerate(STORES.items())
    }
    for name, one in stores.items():
        one.write(root, name, appends=4)
    return root, stores


def _row_keys(kind: ServedKind) -> list[bytes]:
    starts = range(0, 3 * MINUTE_MS, MINUTE_MS)
    if kind is ServedKind.WINDOW:
        return [window_row_key(key, start) for key in KEYS for start in starts]
    if kind is ServedKind.SESSION:
        return [session_row_key(key, start, start + 7) for key in KEYS for start in starts]
    return KEYS


def _path(store: str, key: bytes, at_ms: int) -> str:
    shown = key.decode().replace("/", "%2F")
    form = {"sales": f"windowed/sales/{shown}/0/9999999", "visits": f"sessions/visits/{shown}"}
    return f"/state/{form.get(store, f'keyvalue/{store}/{shown}')}?as_of={at_ms}"


def _expected(store: str, key: bytes, rows: dict[tuple[int, bytes], bytes]) -> Any:
    """The row that nodes show of a key; of a window or session store all of them, in the order of row keys."""
    named = {row_key: value for (_, row_key), value in rows.items() if _key_of(store, row_key) == key}
    return [orjson.loads(named[row_key]) for row_key in sorted(named)]


def _key_of(store: str, row_key: bytes) -> bytes:
    match STORES[store]:
        case ServedKind.WINDOW:
            return decode_window_row_key(row_key)[0]
        case ServedKind.SESSION:
            return decode_session_row_key(row_key)[0]
        case _:
            return row_key


@pytest.mark.parametrize("store", STORES)
def test_random_reads_equal_a_replay(store: str, produced: tuple[Path, dict[str, Produced]]) -> None:
    root, stores = produced
    cluster, drawn, one = Cluster(tables=root), random.Random(store), stores[store]
    times = [START_MS, *(ms + step for ms, _ in one.states for step in (-1, 0))]
    asked = [(drawn.choice(KEYS), drawn.choice(times)) for _ in range(120)]

    async def ask() -> None:
        for key, at_ms in asked:
            answer = await cluster.get(drawn.choice("abc"), _path(store, key, at_ms))
            expected = _expected(store, key, one.at(at_ms))
            if store in {"sales", "visits"} or expected:
                assert answer.status_code == 200, answer.text
                found = answer.json() if isinstance(answer.json(), list) else [answer.json()]
                assert [row["value"] for row in found] == expected
                assert answer.headers["storekeeper-role"] == "history"
            else:
                assert (answer.status_code, answer.json()["type"]) == (404, "urn:storekeeper:problem:unknown-key")

    asyncio.run(ask())


def test_pages_of_windows_as_of_a_time_follow_each_other(tmp_path: Path) -> None:
    one = Produced(ServedKind.WINDOW)
    one.commit([(0, window_row_key(b"a", start), value_of("a", "1", start)) for start in range(7)])
    at_ms = one.now_ms
    one.commit([(0, window_row_key(b"a", start), None) for start in range(7)])
    one.write(tmp_path, "sales")
    cluster = Cluster(tables=tmp_path)

    async def ask() -> None:
        for order, expected in (("", [0, 1, 2, 3, 4, 5, 6]), ("&reverse=true", [6, 5, 4, 3, 2, 1, 0])):
            path, found = f"/state/windowed/sales/a/0/99?as_of={at_ms}&limit=3{order}", []
            while True:
                answer = await cluster.get("a", path)
                found += [row["window"]["start_ms"] for row in answer.json()]
                if "storekeeper-next-cursor" not in answer.headers:
                    break
                cursor = answer.headers["storekeeper-next-cursor"]
                path = f"/state/windowed/sales/a/0/99?as_of={at_ms}&limit=3{order}&cursor={cursor}"
            assert found == expected
        other = await cluster.get("a", path.replace(f"as_of={at_ms}", f"as_of={at_ms + 1}"))
        assert other.status_code == 400, "a cursor belongs to its time"

    asyncio.run(ask())


def test_the_changes_of_a_key_are_shown_the_newest_first(tmp_path: Path) -> None:
    one = Produced(ServedKind.SESSION)
    one.commit([(0, session_row_key(b"a", 5, 9), value_of("a", "1.50", 1))])
    one.commit([(0, session_row_key(b"a", 5, 9), None), (0, session_row_key(b"b", 5, 9), value_of("b", "1", 1))])
    one.write(tmp_path, "visits")
    cluster, (first, last) = Cluster(tables=tmp_path), (ms for ms, _ in one.states)

    async def ask() -> None:
        row = {"generation": 1, "partition": 0, "key": "a", "window": {"start_ms": 5, "end_ms": 9}}
        answer = await cluster.get("a", "/state/history/visits/a")
        assert '"Points":1.50' in answer.text, "numbers keep their digits"
        assert answer.json() == [
            {"at_ms": last, "batch": 2, "offset": 1, "value": None, **row},
            {"at_ms": first, "batch": 1, "offset": 0, "value": {"Card": "a", "Points": 1.5, "Visits": 1}, **row},
        ]
        for query, expected in ((f"to_ms={first}", [1]), (f"from_ms={last}", [2]), ("limit=1", [2])):
            found = (await cluster.get("a", f"/state/history/visits/a?{query}")).json()
            assert [one["batch"] for one in found] == expected
        assert (await cluster.get("a", "/state/history/visits/nobody")).json() == []
        assert (await cluster.get("a", "/state/history/rewards/a")).json()["type"].endswith("no-history")

    asyncio.run(ask())


def test_what_can_not_be_answered_is_refused(tmp_path: Path) -> None:
    one = Produced()
    one.commit([(0, b"a", value_of("a", "1", 1))])
    one.write(tmp_path, "rewards")
    one.write(tmp_path, "sales", kind=ServedKind.WINDOW)
    cluster = Cluster(tables=tmp_path)

    async def ask() -> None:
        for path, status, kind, told in (
            (f"/state/keyvalue/rewards/a?as_of={START_MS - 1}", 409, "not-exact", "2026-01-01T00:00:00.000Z"),
            ("/state/keyvalue/rewards/a?as_of=9999999999999", 409, "not-exact", "is exact until"),
            (f"/state/keyvalue/players/a?as_of={START_MS}", 404, "no-history", "no history of store players"),
            ("/state/keyvalue/rewards/a?as_of=yesterday", 400, "invalid-argument", "as_of is epoch"),
        ):
            answer = await cluster.get("a", path)
            assert (answer.status_code, answer.json()["type"]) == (status, f"urn:storekeeper:problem:{kind}")
            assert told in answer.json()["detail"]
        stream = await cluster.get("a", f"/state/windowed/sales/a/0/9?as_of={START_MS}", accept="application/x-ndjson")
        assert stream.status_code == 400

    asyncio.run(ask())


def test_few_requests_wait_for_the_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going, read = threading.Event(), PastReads("a", tmp_path, SystemClock(), most_waiting=2)
    monkeypatch.setattr(read, "_page", lambda *_: RowPage([]) if going.wait(30) else None)

    async def ask() -> None:
        waiting = [asyncio.ensure_future(read.row("rewards", b"a", 0, 0)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyScansError, match="ask again"):
            await read.row("rewards", b"a", 0, 0)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        with pytest.raises(TooManyScansError):  # its thread still reads, or will
            await read.row("rewards", b"a", 0, 0)
        going.set()
        assert await waiting[0] is None
        assert await read.row("rewards", b"a", 0, 0) is None

    asyncio.run(ask())


def test_a_node_without_the_reader_of_tables_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(StoreUnavailableError, match=r"install storekeeper\[sql\]"):
        asyncio.run(PastReads("a", tmp_path, SystemClock()).row("rewards", b"a", 0, 0))


def test_of_rows_in_several_partitions_that_where_nodes_look_counts() -> None:
    rows = [
        {"_partition": partition, "_key": b"a", "_batch_ms": at_ms, "_value": value}
        for partition, at_ms, value in ((2, 4, b"two"), (1, 3, b"one"))
    ]
    assert one_of_each(rows, lambda _: 1) == [(b"a", b"one")]
    assert one_of_each(rows, lambda _: 0) == one_of_each(rows, lambda _: 2) == [(b"a", b"two")]
    assert one_of_each([], lambda _: 0) == []
