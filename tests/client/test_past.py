"""Reads as of a time by both clients, answered by the nodes' own routes from histories."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from storekeeper.errors import InvalidArgumentError, NotExactError
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.store_definitions import ServedKind
from tests.client.both import Awaiting, Blocking, Either
from tests.client.past import made_past
from tests.client.served_cluster import BEGAN_MS, served_cluster
from tests.snapshots.made_history import START_MS, Produced


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], Produced]]:
    tables: Path = tmp_path_factory.mktemp("tables")
    stores = made_past(tables)
    with served_cluster(tables) as served:
        yield served.addresses, stores["rewards"]


@pytest.fixture
def asked(client: Either, past: tuple[list[str], Produced]) -> Iterator[Blocking | Awaiting]:
    with client(*past[0]) as found:
        yield found


def test_every_kind_as_of_a_time(asked: Blocking | Awaiting, past: tuple[list[str], Produced]) -> None:
    for (at_ms, _), points in zip(past[1].states, (1.5, 2.5), strict=True):
        found = asked.get("card-07", as_of=at_ms)
        assert (found.value["Points"], found.role, found.complete) == (points, "history", True)
        assert asked.call(lambda client: client.ranked("rewards").get("nobody", as_of=at_ms)).value is None  # noqa: B023

        def of_window(client: Any) -> Any:
            return client.window("sales").fetch("s1", 0, BEGAN_MS, as_of=at_ms)  # noqa: B023

        def of_session(client: Any) -> Any:
            return client.session("visits").find_sessions("u1", as_of=at_ms)  # noqa: B023

        (window,), (session,) = asked.rows(of_window), asked.rows(of_session)
        assert (window.start_ms, window.value["Points"]) == (BEGAN_MS, points)
        assert (session.end_ms, session.value["Points"]) == (BEGAN_MS + 7, points)


def test_what_is_not_known_is_an_error_of_its_own(asked: Blocking | Awaiting) -> None:
    with pytest.raises(NotExactError, match=r"the earliest exact time is 2026-01-01T00:00:00\.000Z"):
        asked.get("card-07", as_of=START_MS - 1)
    with pytest.raises(InvalidArgumentError, match="no history of store players"):
        asked.call(lambda client: client.key_value("players").get("anna", as_of=START_MS))
    with pytest.raises(InvalidArgumentError, match="at least 0"):
        asked.get("card-07", as_of=-1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], int]]:
    """Nodes with histories of several rows, and the time of the first of two batches."""
    tables: Path = tmp_path_factory.mktemp("many")
    rows = {
        "rewards": (ServedKind.KEY_VALUE, [b"a1", b"a2", b"b1"]),
        "players": (ServedKind.RANKED, [b"anna", b"ben", b"cleo"]),
        "sales": (ServedKind.WINDOW, [window_row_key(b"s1", 5), window_row_key(b"s2", 6)]),
        "visits": (ServedKind.SESSION, [session_row_key(b"u1", 5, 9), session_row_key(b"u2", 50, 90)]),
    }
    for store, (kind, row_keys) in rows.items():
        one = Produced(kind)
        first = b'{"Card":"c","Points":1,"Visits":%d,"Score":%d}'
        one.commit([(0, key, first % (number, 10 * number)) for number, key in enumerate(row_keys)])
        one.commit([(0, key, None) for key in row_keys])
        one.write(tables, store)
    with served_cluster(tables) as served:
        yield served.addresses, one.states[0][0]


def test_scans_and_ranks_as_of_a_time(client: Either, many: tuple[list[str], int]) -> None:
    addresses, then = many
    scans: dict[str, tuple[Any, list[str]]] = {
        "range": (lambda c, t: c.key_value("rewards").range("a2", "b1", as_of=t), ["a2", "b1"]),
        "reverse_range": (lambda c, t: c.key_value("rewards").reverse_range("a2", "b1", as_of=t), ["b1", "a2"]),
        "prefix_scan": (lambda c, t: c.key_value("rewards").prefix_scan("a", as_of=t, page_rows=1), ["a1", "a2"]),
        "all": (lambda c, t: c.key_value("rewards").all(as_of=t, page_rows=2), ["a1", "a2", "b1"]),
        "reverse_all": (lambda c, t: c.key_value("rewards").reverse_all(as_of=t), ["b1", "a2", "a1"]),
        "fetch_all": (lambda c, t: c.window("sales").fetch_all(0, 9, as_of=t), ["s1", "s2"]),
        "active": (lambda c, t: c.session("visits").active(10, 3, as_of=t), ["u1"]),
        "ended": (lambda c, t: c.session("visits").ended(80, 95, as_of=t), ["u2"]),
    }
    lists: dict[str, tuple[Any, list[str]]] = {
        "top": (lambda c, t: c.ranked("players").top(2, as_of=t), ["cleo", "ben"]),
        "scores": (lambda c, t: c.ranked("players").scores(5, 15, as_of=t), ["ben"]),
    }
    with client(*addresses) as asking:
        for name, (scan, keys) in scans.items():
            for at_ms, expected in ((then, keys), (then + 60_000, [])):
                found = asking.rows(partial(scan, t=at_ms))
                assert [row.key for row in found] == expected, name
        for name, (ask, best) in lists.items():
            for at_ms, expected in ((then, best), (then + 60_000, [])):
                reading = asking.call(partial(ask, t=at_ms))
                assert ([row.key for row in reading.value], reading.role) == (expected, "history"), name
        placed = asking.call(lambda one: one.ranked("players").rank("ben", as_of=then)).value
        assert (placed.rank, placed.of, placed.score) == (2, 3, 10)
        assert asking.call(lambda one: one.ranked("players").rank("ben", as_of=then + 60_000)).value is None
