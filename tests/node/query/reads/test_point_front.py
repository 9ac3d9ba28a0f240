"""Which requests are sent to another variant, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from storekeeper.clock import SystemClock
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import Answer
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.query.reads.pages import QueryLimits
from storekeeper.node.query.reads.point import Front, PointQueries, asked_path
from storekeeper.protocol.freshness import NO_REQUIREMENT, FreshnessRequirement
from storekeeper.stores.store_definitions import parse_definitions


class _Behind(PointQueries):
    """Everything behind the front: keeps what it is asked."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.asked: list[tuple[str, bytes]] = []

    async def __call__(self, scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        self.scopes.append(scope)

    async def answer(
        self,
        store: str,
        key: bytes,
        requirement: FreshnessRequirement = NO_REQUIREMENT,
        *,
        as_of_ms: int | None = None,
        forwarded: bool,
    ) -> Answer:
        del requirement, as_of_ms
        self.asked.append((store, key))
        return Answer(421 if forwarded else 200, [], b"")


class _Kept(HotReads):
    """Keeps what it is asked for."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog, SystemClock(), QueryLimits())
        self.asked: list[tuple[bytes, object]] = []

    def _kept(self, store: bytes, key: bytes) -> bytes:
        self.asked.append((store, key))
        return b"found"

    def rows(self, store: bytes, keys: Sequence[bytes]) -> bytes:
        self.asked.append((store, keys))
        return b"found"


@pytest.fixture
def behind() -> _Behind:
    return _Behind()


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog("a", {}, parse_definitions("rewards=old,players=p"))
    catalog.aliased = {b"rewards": b"rewards@new"}
    return catalog


@pytest.fixture
def front(catalog: Catalog, behind: _Behind) -> Front:
    return Front(catalog, behind, behind)


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
    ("asked", "matched"),
    [
        (b"/state/sessions/vis%69ts/ended%2f1%2F2", "/state/sessions/visits/ended%2f1%2F2"),
        (b"/state/sessions/visits/active%0A", "/state/sessions/visits/active%0A"),
        (b"/state/keyvalues/rewards/prefix/%c3%a4%2F%25%2F%ff", "/state/keyvalues/rewards@new/prefix/ä%2F%%2F\ufffd"),
    ],
)
def test_characters_of_a_key_match_no_other_route(front: Front, behind: _Behind, asked: bytes, matched: str) -> None:
    _ask(front, asked)
    assert behind.scopes[0]["path"] == matched


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


def test_hot_answers_are_of_the_variant_too(catalog: Catalog) -> None:
    hot = _Kept(catalog)
    hot.now(b"/state/keyvalue/rewards/k?key_format=string")
    hot.now(b"/state/keyvalues/rewards?key=a")
    hot.now(b"/state/keyvalue/players/k")
    hot.posted(b"/state/keyvalues/rewards", b'{"keys":["b"]}')
    assert hot.asked == [
        (b"rewards@new", b"k"),
        (b"rewards@new", [b"a"]),
        (b"players", b"k"),
        (b"rewards@new", [b"b"]),
    ]
