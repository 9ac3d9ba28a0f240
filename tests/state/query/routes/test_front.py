"""Which requests are sent to another variant, and what is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from state.cluster.catalog import Catalog
from state.metrics.latency import LatencyRecorder
from state.query.answers.answer import Answer
from state.query.reads.point import LOCAL
from state.query.routes.front import Front, asked_path
from state.store_definitions import parse_definitions


class _Behind:
    """Everything behind the front: keeps what it is asked."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.asked: list[tuple[str | bytes, object]] = []
        self.answered = {LOCAL: LatencyRecorder()}
        self.hot_rows = _HotRows(self.asked)

    async def __call__(self, scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        self.scopes.append(scope)

    async def answer(self, store: str, key: bytes, _requirement: object, *, forwarded: bool) -> Answer:
        self.asked.append((store, key))
        return Answer(421 if forwarded else 200, [], b"")

    def now(self, store: bytes, keys: list[bytes]) -> bytes:
        self.asked.append((store, keys))
        return b"found"


class _HotRows:
    def __init__(self, asked: list[tuple[str | bytes, object]]) -> None:
        self._asked = asked

    def answer(self, store: bytes, key: bytes) -> bytes:
        self._asked.append((store, key))
        return b"found"


@pytest.fixture
def behind() -> _Behind:
    return _Behind()


@pytest.fixture
def front(behind: _Behind) -> Front:
    catalog = Catalog("a", {}, parse_definitions("rewards=old,players=p"))
    catalog.elsewhere = {b"rewards": b"rewards@new"}
    return Front(catalog, behind, behind, behind)  # type: ignore[arg-type]


def _ask(front: Front, path: bytes, *headers: tuple[bytes, bytes]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    scope = {"type": "http", "method": "GET", "raw_path": path, "path": path.decode(), "query_string": b""}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(front({**scope, "headers": list(headers)}, None, send))
    return sent


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"/state/keyvalues/rewards", b"/state/keyvalues/rewards@new"),
        (b"/state/keyvalues/rew%61rds/prefix/a%2Fb/c", b"/state/keyvalues/rewards@new/prefix/a%2Fb/c"),
        (b"/state/keyvalues/rewards/prefix/%ff", b"/state/keyvalues/rewards@new/prefix/%ff"),
        (b"/state/stores/rewards", b"/state/stores/rewards@new"),
        (b"/state/digest/rewards/3", b"/state/digest/rewards@new/3"),
        (b"/state/keyvalues/players/prefix/rewards", b"/state/keyvalues/players/prefix/rewards"),
        (b"/state/keyvalues/rewards2", b"/state/keyvalues/rewards2"),
        (b"/state/keyvalues/rewards@old", b"/state/keyvalues/rewards@old"),
        (b"/internal/scan/rewards", b"/internal/scan/rewards"),
        (b"/state/stores", b"/state/stores"),
        (b"/", b"/"),
    ],
)
def test_the_variant_stands_in_the_stores_place(front: Front, behind: _Behind, asked: bytes, answered: bytes) -> None:
    _ask(front, asked)
    assert behind.scopes[0]["raw_path"] == answered
    assert asked_path(behind.scopes[0]) == asked


@pytest.mark.parametrize(
    ("asked", "store", "key"),
    [
        (b"/state/keyvalue/rewards/k", "rewards@new", b"k"),
        (b"/state/keyvalue/rew%61rds/a%2Fb/c", "rewards@new", b"a/b/c"),
        (b"/state/keyvalue/rewards/%ff", "rewards@new", b"\xff"),
        (b"/state/keyvalue/players/rewards", "players", b"rewards"),
        (b"/state/keyvalue/rewards2/k", "rewards2", b"k"),
        (b"/state/keyvalue/rewards@old/k", "rewards@old", b"k"),
    ],
)
def test_a_key_is_read_from_the_variant(front: Front, behind: _Behind, asked: bytes, store: str, key: bytes) -> None:
    assert _ask(front, asked)[0]["status"] == 200
    assert behind.asked == [(store, key)]


def test_what_another_node_sends_on_is_left_alone(front: Front, behind: _Behind) -> None:
    hop = (b"storekeeper-hop", b"b")
    _ask(front, b"/state/keyvalues/rewards", hop)
    assert behind.scopes[0]["raw_path"] == b"/state/keyvalues/rewards"
    assert _ask(front, b"/state/keyvalue/rewards/k", hop)[0]["status"] == 421
    assert behind.asked == [("rewards", b"k")]


def test_hot_answers_are_of_the_variant_too(front: Front, behind: _Behind) -> None:
    hot = front.hot_answers
    hot.answer(b"/state/keyvalue/rewards/k?key_format=string")
    hot.answer(b"/state/keyvalues/rewards?key=a")
    hot.answer(b"/state/keyvalue/players/k")
    hot.post(b"/state/keyvalues/rewards", b'{"keys":["b"]}')
    assert behind.asked == [
        (b"rewards@new", b"k"),
        (b"rewards@new", [b"a"]),
        (b"players", b"k"),
        (b"rewards@new", [b"b"]),
    ]
