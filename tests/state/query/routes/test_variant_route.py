"""Which requests are sent to another variant, and what is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from state.cluster.catalog import Catalog
from state.query.protection.hot_requests import HotAnswers
from state.query.routes.variant_route import VariantRoute, asked_path
from state.store_definitions import parse_definitions


class _App:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.targets: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        self.scopes.append(scope)

    @property
    def hot_answers(self) -> HotAnswers:
        def now(target: bytes) -> bytes | None:
            self.targets.append(target)
            return None

        return HotAnswers(b"/state/keyvalue", now)


@pytest.fixture
def app() -> _App:
    return _App()


@pytest.fixture
def route(app: _App) -> VariantRoute:
    catalog = Catalog("a", {}, parse_definitions("rewards=old,players=p"))
    catalog.elsewhere = {b"rewards": b"rewards@new"}
    return VariantRoute(catalog, app)  # type: ignore[arg-type]


def _ask(route: VariantRoute, path: bytes, *headers: tuple[bytes, bytes]) -> None:
    scope = {"type": "http", "raw_path": path, "path": path.decode(), "headers": list(headers)}
    asyncio.run(route(scope, None, None))


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"/state/keyvalue/rewards/k", b"/state/keyvalue/rewards@new/k"),
        (b"/state/keyvalue/rew%61rds/a%2Fb/c", b"/state/keyvalue/rewards@new/a%2Fb/c"),
        (b"/state/keyvalue/rewards/%ff", b"/state/keyvalue/rewards@new/%ff"),
        (b"/state/keyvalues/rewards", b"/state/keyvalues/rewards@new"),
        (b"/state/stores/rewards", b"/state/stores/rewards@new"),
        (b"/state/digest/rewards/3", b"/state/digest/rewards@new/3"),
        (b"/state/keyvalue/players/rewards", b"/state/keyvalue/players/rewards"),
        (b"/state/keyvalue/rewards2/k", b"/state/keyvalue/rewards2/k"),
        (b"/state/keyvalue/rewards@old/k", b"/state/keyvalue/rewards@old/k"),
        (b"/internal/scan/rewards", b"/internal/scan/rewards"),
        (b"/state/stores", b"/state/stores"),
        (b"/", b"/"),
    ],
)
def test_the_variant_stands_in_the_stores_place(route: VariantRoute, app: _App, asked: bytes, answered: bytes) -> None:
    _ask(route, asked)
    assert app.scopes[0]["raw_path"] == answered
    assert asked_path(app.scopes[0]) == asked


def test_what_another_node_sends_on_is_left_alone(route: VariantRoute, app: _App) -> None:
    _ask(route, b"/state/keyvalue/rewards/k", (b"storekeeper-hop", b"b"))
    assert app.scopes[0]["raw_path"] == b"/state/keyvalue/rewards/k"


def test_hot_answers_are_of_the_variant_too(route: VariantRoute, app: _App) -> None:
    answer = route.hot_answers.answer
    answer(b"/state/keyvalue/rewards/k?max_lag=1")
    answer(b"/state/keyvalues/rewards?key=a")
    answer(b"/state/keyvalue/players/k")
    assert app.targets == [
        b"/state/keyvalue/rewards@new/k?max_lag=1",
        b"/state/keyvalues/rewards@new?key=a",
        b"/state/keyvalue/players/k",
    ]
