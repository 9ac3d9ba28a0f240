"""Reads as of a time by both clients, answered by the nodes' own routes from histories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storekeeper.errors import InvalidArgumentError, NotExactError
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
